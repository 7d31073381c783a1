#!/usr/bin/env python3
"""Links between living workers break: all at once, one pair for good, at any moment. Whoever can go on does: a
reset costs a pause and no generation, a pair that can't talk costs one of the two.

usage: links_test.py MUSTER [CASE…]

Hosts are network namespaces (hosts.py).
"""
import time

import comm_test
import elastic
import hosts
import kit
import mounts

BOUND_S = 90  # Against hanging only: a lost link is noticed within hosts.SILENCE_S, a lost node within a lease.
PATIENT = (*kit.LAPSING, *kit.PATIENCE)  # A connection of an agent that was reset has time to come back.
RESETS_N = 5


def training(world, names='abc', steps=1500, nnodes='1:4', serve=PATIENT):
    """These nodes have made a step together, and stand before the next."""
    job = hosts.Training(world, elastic.trainer(steps), nnodes=nnodes, serve=serve, limit=0)
    job.start_all(*names)
    job.made_by(len(names))
    job.settled(*names)
    return job


def ends_well(job, *names):
    job.limit(elastic.NO_LIMIT)
    return job.ends_well(*names)


def one_of(job, *names):
    """Waits until exactly one of these two has made more steps; that one, and the other."""
    job.limit(job.at + 20)
    goes_on = kit.wait_until(lambda: [name for name in names if job.last(name) >= job.at],
                             f'one of {names} had done step {job.at}', BOUND_S)
    assert len(goes_on) == 1, f'both have done step {job.at}: {goes_on}'
    return goes_on[0], next(name for name in names if name not in goes_on)


# ---- a reset ----

def resets_cost_no_generation(reset_while):
    """reset_while(job): resets, and lets steps go."""
    with hosts.World() as world:
        job = training(world)
        before = job.generation()
        for _ in range(RESETS_N):
            reset_while(world, job)
            job.advance(*'abc', bound_s=BOUND_S)
        assert job.generation() == before, f'it was {before}: {job.job.status()}'
        found = ends_well(job, *'abc')
        assert max(found.generations) == before, found.generations


def test_a_reset_of_all_connections_of_a_host_between_two_steps_costs_no_generation():
    def reset(world, _):
        assert world.reset('b', agents=True) >= 3
    resets_cost_no_generation(reset)


def test_a_reset_of_all_connections_of_a_host_in_a_step_costs_no_generation():
    def reset(world, job):
        """The gate is some steps ahead: they are at work."""
        job.limit(job.at + 30)
        kit.wait_until(lambda at=job.at - 20: job.last() >= at, 'they were at work')
        world.reset('b', agents=True)
    resets_cost_no_generation(reset)


def test_a_reset_of_all_connections_of_all_hosts_costs_no_generation():
    def reset(world, _):
        assert world.reset(*'abc', agents=True) >= 6
    resets_cost_no_generation(reset)


def test_a_reset_while_the_orchestrator_is_down_costs_a_pause():
    with hosts.World() as world:
        job = training(world)
        before = job.generation()
        job.orchestrator.kill9()
        for name in 'abc':
            world.reset(name)
            job.advance(*'abc', bound_s=BOUND_S)
        job.orchestrator.start()
        job.settled(*'abc')
        job.advance(*'abc')
        assert job.generation() == before, f'it was {before}: {job.job.status()}'
        ends_well(job, *'abc')


def boundary_is_entered(change, names, reset):
    """All stand before a step when change(job) has a generation published; then `reset` hosts are reset."""
    with hosts.World() as world:
        job = training(world)
        before = job.generation()
        change(job)
        kit.wait_until(lambda: {job.heard(name)[0] for name in 'abc'} == {before + 1},
                       f'all had heard of generation {before + 1}')
        assert world.reset(*reset) > 0
        job.advance(*names, bound_s=BOUND_S)
        assert job.settled(*names) == before + 1, job.job.status()
        ends_well(job, *names)


def test_a_reset_between_members_before_a_planned_generation_is_entered_costs_a_pause():
    boundary_is_entered(lambda job: job.start('d'), 'abcd', 'b')


def test_a_reset_of_a_newcomer_before_its_generation_is_entered_costs_a_pause():
    boundary_is_entered(lambda job: job.start('d'), 'abcd', 'd')


def test_a_reset_before_a_generation_without_a_drained_node_is_entered_costs_a_pause():
    boundary_is_entered(lambda job: job.orchestrator.say('drain', 'c'), 'ab', 'abc')


def test_a_reset_of_workers_that_make_agreed_calls_costs_no_generation():
    class Adders(comm_test.Stage):
        def start(self, *names):
            for name in names:
                self.nodes[name] = self.job.node(name, '--monitor-interval', '0.1', script=comm_test.PROGRAM,
                                                 args=self.args, before=world.on(name), **self.env)
                self.nodes[name].wait_log('in job ')

    with hosts.World() as world:
        stage = Adders(world, serve=PATIENT, MUSTER_TRANSPORT='tcp')
        stage.start(*'abc')
        before, _ = stage.together(*'abc')
        for n in range(RESETS_N):
            stage.goes_on()
            assert world.reset('abc'[n % 3], agents=True) > 0
        stage.goes_on()
        assert stage.job.status()['generation'] == before, stage.job.status()
        stage.end(*'abc')


# ---- a cut ----

def test_a_pair_that_is_cut_while_the_journal_can_not_be_written_costs_one_of_them_when_there_is_room():
    with hosts.World() as world:
        disk = world.journal_disk()
        job = training(world)
        mounts.fill(disk)
        world.sever('a', 'b')
        job.limit(job.at + 1)  # Whoever needs the other waits.
        until = time.monotonic() + 3 * kit.LEASE_S
        kit.wait_until(lambda: time.monotonic() > until, 'some leases were over')
        said_n = job.orchestrator.log().count('left out')
        assert said_n <= 2, f'{said_n} times "left out", and nobody was: {job.job.status()}'
        assert {m['node'] for m in job.job.status()['members']} == set('abc')
        mounts.make_room(disk)
        stays, _ = one_of(job, 'a', 'b')
        job.advance(stays, 'c', bound_s=BOUND_S)
        ends_well(job, *'abc')


def one_of_a_pair_goes_on_when_the_third_dies(cut):
    with hosts.World() as world:
        job = training(world)
        cut(world)
        job.kill('c')
        stays, _ = one_of(job, 'a', 'b')
        job.advance(stays, bound_s=BOUND_S)
        ends_well(job, 'a', 'b')


def test_a_pair_is_cut_then_the_third_dies_and_one_of_the_two_goes_on():
    one_of_a_pair_goes_on_when_the_third_dies(lambda world: world.sever('a', 'b'))


def test_a_pair_is_cut_in_silence_then_the_third_dies_and_one_of_the_two_goes_on():
    one_of_a_pair_goes_on_when_the_third_dies(lambda world: world.cut('a', 'b'))


def test_a_pair_is_cut_and_one_goes_then_the_third_dies_and_the_other_goes_on():
    with hosts.World() as world:
        job = training(world)
        world.sever('a', 'b')
        stays, _ = one_of(job, 'a', 'b')
        job.advance(stays, 'c', bound_s=BOUND_S)
        job.kill('c')
        job.advance(stays, bound_s=BOUND_S)
        ends_well(job, 'a', 'b')


def test_a_spare_that_a_member_can_not_reach_any_more_holds_up_no_drain():
    with hosts.World() as world:
        job = training(world, nnodes='1:3')
        job.start('d')
        kit.wait_until(lambda: all(world.connected('d', name) for name in 'abc') and 'd' in job.job.waiting(),
                       'd was waiting, and had reached all members')
        world.sever('a', 'd')
        job.orchestrator.say('drain', 'b')
        job.steps_until(job.nodes['b'].ended, 'b had left', BOUND_S)
        assert job.nodes['b'].wait() == 0
        job.settled('a', 'c')
        world.heal('a', 'd')
        job.made_by(3)
        job.settled('a', 'c', 'd')
        ends_well(job, *'acd')


if __name__ == '__main__':
    hosts.enter()
    kit.run(__name__, 3)
