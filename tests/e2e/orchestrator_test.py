#!/usr/bin/env python3
"""Orchestrators that are killed and come back: nothing that was acknowledged is lost, and no script
that has nothing to do with it is disturbed.

usage: orchestrator_test.py MUSTER [CASE…]

$E2E_SEED replays a choice of moments (not of what the kernel makes of them). With $MUSTER_TEST_FULL
there are a hundred crashes instead of six.
"""
import os
import random
import signal
import time

import kit
from kit import LAPSING, SERVE
from puppets import PROGRAM, STATUSES, Puppets

CRASHES = 100 if kit.FULL else 6
NOT_FOUND = 5
BACK = 'is back after'  # An agent says so of its orchestrator.


def generation_of(reports):
    return reports[0]['generation']


def check_history(job):
    """One number names one membership, and each script of it started once."""
    clusters, seen = {}, set()
    for report in job.reports():
        number = report['generation']
        cluster = (report['size'], report['env']['MASTER_ADDR'], report['env']['MASTER_PORT'])
        assert clusters.setdefault(number, cluster) == cluster, (number, report)
        assert (number, report['rank']) not in seen, (number, report)
        seen.add((number, report['rank']))


class Churn:
    """A job in which something happens all the time, and what is to come of it."""

    def __init__(self, orchestrator, rng):
        self.orchestrator = orchestrator
        self.job = orchestrator.job('churn', nnodes='1:8')
        self.rng = rng
        self.nodes = {}
        self.named_n = 0
        self.told = []
        self.leavers = []
        self.killed = None
        self.reports = None

    def join(self):
        self.named_n += 1
        name = f'n{self.named_n}'
        self.nodes[name] = self.job.node(name)
        return name

    def leave(self):
        name, node = self.pop()
        self.leavers.append(node)
        node.send(self.rng.choice((signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)))
        return name

    def drain(self):
        """By command; once that is answered with ok, the node leaves, whatever happens then."""
        name, node = self.pop()
        self.leavers.append(node)
        code, _, _ = self.orchestrator.ask('drain', name, '--timeout', '5')
        if code != 0:
            self.told.append(name)
        return f'{name} {code}'

    def kill_agent(self):
        name, node = self.pop()
        node.kill9()
        return name

    def kill_worker(self):
        name = self.rng.choice(list(self.nodes))
        os.kill(next(r['pid'] for r in self.reports if r['node'] == name), signal.SIGKILL)
        self.killed = name
        return name

    def nothing(self):
        return ''

    def pop(self):
        name = self.rng.choice(list(self.nodes))
        return name, self.nodes.pop(name)

    def act(self):
        """Does something; what, and whether it means another generation."""
        ways = [self.join, self.nothing, self.kill_worker]
        if len(self.nodes) > 2:
            ways = [self.leave, self.drain, self.kill_agent, self.kill_worker, self.nothing]
            ways += [self.join] if len(self.nodes) < 5 else []
        way = self.rng.choice(ways)
        return f'{way.__name__} {way()}', way != self.nothing

    def settle(self, changed):
        """Waits for what must come of it, and sees that nothing else did."""
        for name in self.told:  # The answer was lost; the node may know all the same.
            code, _, err = self.orchestrator.ask('drain', name)
            assert code in (0, NOT_FOUND), err
        self.told = []
        for node in self.leavers:
            assert node.wait() == 0, node.title
        self.leavers = []
        before = self.reports
        after = generation_of(before) if before and changed else 0
        self.reports = self.job.settled(*self.nodes, after=after)
        if before is None:
            return
        assert generation_of(self.reports) >= generation_of(before), 'a generation went back'
        if not changed:
            assert self.reports == before, 'scripts were disturbed'
        # A node whose scripts are killed again and again may be left out for a while.
        stay = [r['node'] for r in before if r['node'] in self.nodes and r['node'] != self.killed]
        order = [r['node'] for r in self.reports if r['node'] != self.killed]
        assert order[:len(stay)] == stay, 'ranks changed places'
        self.killed = None


def test_crashes_at_any_moment_lose_nothing_and_disturb_nobody():
    seed = int(os.environ.get('E2E_SEED', random.SystemRandom().randrange(1 << 32)))
    rng = random.Random(seed)
    done = [f'E2E_SEED={seed}']
    with kit.World() as world:
        # Of a node that died with the orchestrator, only its lease tells; all others are to be back within it.
        orchestrator = world.orchestrator('--lease', '4', '--join-window', '0.2')
        calm = orchestrator.job('calm', nnodes='2', nproc=2)
        calm_nodes = calm.nodes('a', 'b')
        calm_reports = calm.settled('a', 'b')
        churn = Churn(orchestrator, rng)
        try:
            for _ in range(3):
                churn.join()
            churn.settle(True)
            for _ in range(CRASHES):
                crash = orchestrator.kill_in(rng.random() * rng.choice((0.01, 0.05, 0.15)))
                said, changed = churn.act()
                done.append(said)
                crash.join()
                time.sleep(rng.choice((0, 0, rng.random() * 0.5)))
                orchestrator.start()
                churn.settle(changed)
                assert calm.reports() == calm_reports, 'a job that was left alone was disturbed'
                assert calm.members() == ['a', 'a', 'b', 'b'], calm.status()
        except BaseException as error:
            error.add_note('; '.join(done))
            raise
        check_history(churn.job)
        for job, nodes in ((calm, calm_nodes), (churn.job, churn.nodes.values())):
            job.finish()
            codes = [node.wait() for node in nodes]
            assert set(codes) == {0}, (job.name, codes)
        assert calm.reports() == calm_reports


def test_crashes_one_after_the_other_disturb_no_script():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='3')
        nodes = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        for turn in range(CRASHES):
            orchestrator.kill9()
            backs = [node.log().count(BACK) for node in nodes]
            orchestrator.start()
            if turn % 2:  # Otherwise it dies before agents are back.
                for node, n in zip(nodes, backs):
                    node.wait_log(BACK, n + 1)
        kit.wait_until(lambda: job.members() == ['a', 'b', 'c'], 'all were members')
        assert job.reports() == before and job.status()['generation'] == generation_of(before)
        job.ends_well(*nodes)


def test_nobody_is_evicted_when_the_orchestrator_was_away_for_longer_than_the_lease():
    with kit.World() as world:
        lease_s = 3
        orchestrator = world.orchestrator('--lease', str(lease_s), '--join-window', '0.2')
        job = orchestrator.job(nnodes='3')
        nodes = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        other = orchestrator.job('other', nnodes='1')
        dies = other.node('d')
        other.settled('d')
        orchestrator.kill9()
        dies.kill9()
        time.sleep(lease_s + 0.5)
        orchestrator.start()
        for node in nodes:
            node.wait_log(BACK)
        # When this is known, the time in which all were to come back is over.
        kit.wait_until(lambda: orchestrator.events(other.name, 'lost'), 'the one that had died was missed')
        assert job.members() == ['a', 'b', 'c'] and job.reports() == before
        assert not orchestrator.events(job.name, 'lost'), orchestrator.events()
        job.ends_well(*nodes)


def test_a_node_that_died_while_the_orchestrator_was_away_is_missed_when_it_is_back():
    with kit.World() as world:
        orchestrator = world.orchestrator(*LAPSING)
        job = orchestrator.job(nnodes='1:2')
        a, b = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        orchestrator.kill9()
        b.kill9()
        orchestrator.start()
        after = job.settled('a', after=generation_of(before))
        assert [r['node'] for r in after] == ['a']
        job.ends_well(a)


def test_scripts_that_finish_while_the_orchestrator_is_away_have_finished():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='2')
        nodes = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        orchestrator.kill9()
        job.finish()
        for node in nodes:
            node.wait_log('done, exit code 0')
        assert not any(node.ended() for node in nodes)  # Somebody has to be told.
        orchestrator.start()
        assert [node.wait() for node in nodes] == [0, 0]
        assert job.status()['state'] == 'done' and job.reports() == before


def test_a_script_that_fails_while_the_orchestrator_is_away_is_charged_when_it_is_back():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='1')
        node = job.node('a', '--max_restarts', '0')
        job.settled('a')
        orchestrator.kill9()
        job.finish(6)
        node.wait_log('failed, exit code 6')
        assert not node.ended()
        orchestrator.start()
        assert node.wait() == 6
        kit.wait_until(lambda: job.status()['state'] == 'failed', 'the job had failed')
        assert len(job.reports()) == 1


def test_the_restart_budget_outlives_the_orchestrator():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='1')
        node = job.node('a', '--max_restarts', '2')
        generation = 0
        for _ in range(2):
            generation = generation_of(job.settled('a', after=generation))
            job.finish(9, f'@{generation}')
            reports = job.settled('a', after=generation)
            orchestrator.restart()
        assert reports[0]['env']['TORCHELASTIC_RESTART_COUNT'] == '2', reports
        job.finish(9)
        assert node.wait() == 9
        assert len(job.reports()) == 3


def test_what_was_answered_with_ok_is_known_after_a_crash():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='1:3')
        a, b, c = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b', 'c')
        b.stop()  # It can't hear of it before the crash.
        orchestrator.say('drain', 'b')
        orchestrator.kill9()
        b.cont()
        orchestrator.start()
        assert b.wait() == 0
        job.settled('a', 'c', after=generation_of(before))
        a.stop()
        orchestrator.say('shutdown', job.name)
        orchestrator.kill9()
        a.cont()
        orchestrator.start()
        assert (a.wait(), c.wait()) == (0, 0)
        assert job.status()['state'] == 'done'


def test_a_node_can_be_drained_while_the_orchestrator_is_away():
    with kit.World() as world:
        orchestrator = world.orchestrator(*LAPSING)
        job = orchestrator.job(nnodes='1:2')
        a, b = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        orchestrator.kill9()
        assert b.terminate() == 0  # After its grace for a generation without it.
        orchestrator.start()
        job.settled('a', after=generation_of(before))
        job.ends_well(a)


def test_a_run_that_ended_stays_ended_and_the_next_has_the_next_number():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='1')
        job.finish()
        for run in (1, 2, 3):
            assert job.node(f'n{run}', '--rerun').wait() == 0
            before = job.status()
            orchestrator.restart()
            after = job.status()
            assert (after['run'], after['state']) == (run, 'done'), after
            assert after['generation'] == before['generation'], (before, after)
        assert [r['run'] for r in job.reports()] == [1, 2, 3]


def test_workers_that_know_muster_live_through_it_and_values_by_tag_too():
    with kit.World() as world, Puppets(world) as puppets:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='2', mode='inprocess')
        nodes = [job.node(name, script=PROGRAM, E2E_PUPPETS=puppets.path) for name in 'ab']
        found = puppets.ordered('a', 'b')
        before = found[0].world()
        wait_ms = kit.LONG_S * 1000
        for turn in range(3):
            found[turn % 2].tell(f'sync tag {wait_ms} {turn}x')
            orchestrator.kill9()
            found[1 - turn % 2].tell(f'sync tag {wait_ms} {turn}y')
            orchestrator.start()
            answers = [one.answer() for one in found]
            assert all(f'={turn}x' in a and f'={turn}y' in a for a in answers), answers
        orchestrator.kill9()
        answer = found[0].ask('barrier gate 300')
        assert answer.startswith(f'error {STATUSES["timedout"]} '), answer
        orchestrator.start()
        for one in found:
            one.tell(f'barrier gate {wait_ms}')
        assert [one.answer() for one in found] == ['ok', 'ok']
        assert found[0].world() == before and len(puppets.all) == 2
        for one in found:
            one.do('leave')
            one.tell('exit 0')
        assert [node.wait() for node in nodes] == [0, 0]


def change_data(orchestrator):
    """As if its disk had been lost, and only the token was kept."""
    with open(orchestrator.token_file, encoding='ascii') as file:
        token = file.read()
    orchestrator.data += '-other'
    os.mkdir(orchestrator.data, 0o700)
    with open(orchestrator.token_file, 'w', encoding='ascii') as file:
        os.chmod(orchestrator.token_file, 0o600)
        file.write(token)


def test_agents_of_another_data_directory_are_refused_and_say_why():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='1')
        node = job.node('a')
        before = job.settled('a')
        orchestrator.kill9()
        change_data(orchestrator)
        orchestrator.start()
        assert node.wait() == 1
        assert '--adopt' in node.log(), node.log()
        assert job.status() is None and not kit.lives(before[0]['pid'])


def test_agents_of_another_data_directory_are_newcomers_when_they_are_adopted():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='2')
        nodes = job.nodes('a', 'b')
        before = job.settled('a', 'b')
        orchestrator.kill9()
        change_data(orchestrator)
        orchestrator.start('--adopt')
        after = kit.wait_until(lambda: [r for r in job.reports() if r not in before][1:],
                               'both ran again')
        assert not any(kit.lives(r['pid']) for r in before) and kit.lives(after[0]['pid'])
        job.ends_well(*nodes)


if __name__ == '__main__':
    kit.run(__name__, jobs=6)
