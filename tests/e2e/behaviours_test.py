#!/usr/bin/env python3
"""The behaviours that muster's forerunners have tests for, with real processes.

usage: behaviours_test.py MUSTER [CASE…]
"""
import glob
import json
import os
import signal
import time

import kit
from kit import LAPSING, SERVE
from puppets import PROGRAM, STATUSES, Puppets, Stage, together

LONG_MS = kit.LONG_S * 1000


def check_tf_config(reports):
    """As TensorFlow's resolver reads it: the same cluster for all, each at its own place in it."""
    configs = [json.loads(r['env']['TF_CONFIG']) for r in reports]
    cluster = configs[0]['cluster']
    assert list(cluster) == ['worker'] and len(set(cluster['worker'])) == len(reports), cluster
    for rank, config in enumerate(configs):
        assert config == {'cluster': cluster, 'task': {'type': 'worker', 'index': rank}}, config
    for address in cluster['worker']:
        host, port = address.rsplit(':', 1)
        assert host == '127.0.0.1' and 0 < int(port) < 65536, address


def check_world(reports):
    """What all variables say of one generation with one worker per node."""
    size = len(reports)
    for rank, report in enumerate(reports):
        env = report['env']
        want = {'RANK': rank, 'WORLD_SIZE': size, 'GROUP_RANK': rank, 'GROUP_WORLD_SIZE': size,
                'ROLE_RANK': rank, 'ROLE_WORLD_SIZE': size, 'LOCAL_RANK': 0, 'LOCAL_WORLD_SIZE': 1}
        assert {name: env[name] for name in want} == {n: str(v) for n, v in want.items()}, env
        assert 'MUSTER_TOKEN' not in env and 'OMP_NUM_THREADS' not in env, env
    masters = {(r['env']['MASTER_ADDR'], r['env']['MASTER_PORT']) for r in reports}
    assert len(masters) == 1, masters
    check_tf_config(reports)


# ---- 1: registrations ----

def test_one_registration_is_a_world_of_one():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1')
        node = job.node('a')
        check_world(job.settled('a'))
        job.ends_well(node)


def test_with_min_as_max_nobody_starts_before_all_are_there_and_then_all_do():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='3')
        nodes = job.nodes('a', 'b')
        kit.wait_until(lambda: sorted(job.waiting()) == ['a', 'b'], 'two waited')
        assert job.status()['state'] == 'forming' and job.reports() == [], job.reports()
        nodes += job.nodes('c')
        reports = job.settled('a', 'b', 'c')
        check_world(reports)
        assert reports[0]['generation'] == 1 and len(job.reports()) == 3, reports
        job.ends_well(*nodes)


# ---- 2: a third arrives ----

def test_a_third_waits_until_it_is_taken_in_and_then_all_are_in_one_generation():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='2:3')
        nodes = job.nodes('a', 'b')
        first = job.settled('a', 'b')
        orchestrator.say('resize', '2')  # Until this is taken back, a third is not wanted.
        nodes += job.nodes('c')
        kit.wait_until(lambda: job.waiting() == ['c'], 'the third waited')
        assert job.members() == ['a', 'b'] and job.status()['generation'] == first[0]['generation']
        orchestrator.say('resize', 'auto')
        reports = job.settled('a', 'b', 'c')
        check_world(reports)
        assert reports[0]['generation'] == first[0]['generation'] + 1 and job.waiting() == []
        job.ends_well(*nodes)


def test_in_auto_mode_scripts_that_do_not_know_muster_are_let_alone_for_a_while_and_then_restarted():
    with kit.World() as world:
        orchestrator = world.orchestrator(*SERVE)
        job = orchestrator.job(nnodes='2:3', mode='auto')
        nodes = [job.node(name, '--silence', '2') for name in 'ab']
        first = kit.wait_until(lambda: job.complete(['a', 'b']), 'two ran')
        nodes.append(job.node('c', '--silence', '2'))
        reports = kit.wait_until(lambda: job.complete(['a', 'b', 'c'], first[0]['generation']), 'three ran')
        check_world(reports)
        assert min(r['time'] for r in reports) - max(r['time'] for r in first) >= 1, 'they had no time'
        assert job.status()['mode'] == 'auto'  # They may still show what they are.
        job.ends_well(*nodes)
        assert job.status()['mode'] == 'restart'


def test_one_more_than_max_waits_as_a_spare_and_takes_the_place_of_one_that_is_lost():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='2')
        a, b, c = job.nodes('a', 'b', 'c')
        before = job.settled('a', 'b')
        kit.wait_until(lambda: job.waiting() == ['c'], 'the third waited')
        assert all(r['node'] != 'c' for r in job.reports())
        a.kill9()
        reports = job.settled('b', 'c', after=before[0]['generation'])
        check_world(reports)
        assert [r['node'] for r in reports] == ['b', 'c']
        job.ends_well(b, c)


# ---- 6: growth and shrink ----

def test_growth_and_shrink_give_scripts_a_valid_tf_config_and_all_exit_0():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:4')
        nodes = dict(zip('ab', job.nodes('a', 'b')))
        there, generation = ['a', 'b'], 0
        for change in ('', '+c', '-a', '+d', '-c'):
            if change[:1] == '+':
                nodes[change[1]] = job.node(change[1])
                there.append(change[1])
            elif change[:1] == '-':
                assert nodes.pop(change[1]).terminate() == 0
                there.remove(change[1])
            reports = job.settled(*there, after=generation)
            check_world(reports)
            assert [r['node'] for r in reports] == there, (change, reports)
            generation = reports[0]['generation']
        job.ends_well(*nodes.values())
        assert job.status()['state'] == 'done'


# ---- 7: a sum of ones ----

def sums(job, generation):
    found = glob.glob(os.path.join(job.dir, f'sum.{generation}.*'))
    return [int(open(path, encoding='ascii').read() or -1) for path in found]


def test_a_sum_of_ones_is_the_number_of_workers_from_two_to_three_to_two():
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:3')
        nodes = {name: job.node(name, script='sum.py') for name in 'ab'}
        generation = 0
        for size, change in ((2, lambda: None),
                             (3, lambda: nodes.update(c=job.node('c', script='sum.py'))),
                             (2, lambda: nodes.pop('a').kill9())):
            change()
            reports = job.settled(*nodes, after=generation)
            generation = reports[0]['generation']
            assert len(reports) == size and sums(job, generation) == [size] * size, reports
        job.ends_well(*nodes.values())


# ---- 3, 4, 5: values by tag, barriers, the end; in workers that know muster ----

def everyone_gets_everyones_value(mode):
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*SERVE), puppets, mode, nnodes='2')
        found = stage.workers('a', 'b')
        addresses = found[0].world()['addresses']
        for turn in range(3):  # The same tag again and again.
            for one in found:
                one.tell(f'sync tag {LONG_MS} {one.node}{turn}')
            answers = [one.answer() for one in found]
            want = [f'{at}={one.node}{turn}' for at, one in zip(addresses, found)]
            assert {tuple(a.split()[2:]) for a in answers} == {tuple(want)}, answers
        stage.leave(found)


def test_everyone_gets_everyones_value_by_tag_in_process():
    everyone_gets_everyones_value('inprocess')


def test_everyone_gets_everyones_value_by_tag_in_auto_mode():
    everyone_gets_everyones_value('auto')


def times_out(puppet, order):
    """What the orchestrator says to that. If it does not come to it for half a second more, the agent says so in
    its place; then it is asked again."""
    def look():
        text = puppet.fails(order, 'timedout')
        return None if 'did not answer' in text or 'answers' in text else text

    return kit.wait_until(look, f'the orchestrator answered to {order}')


def test_whoever_is_late_is_named_by_a_time_out_and_nothing_is_left_of_it():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*SERVE), puppets, 'inprocess', nnodes='2')
        found = stage.workers('a', 'b')
        late = found[1].world()['addresses'][1]
        for order in ('sync tag 300 old', 'barrier gate 300'):
            text = times_out(found[0], order)
            assert late in text or "'b'" in text, text
        found[1].tell(f'sync tag {LONG_MS} b')
        found[0].tell(f'sync tag {LONG_MS} new')
        answers = [one.answer() for one in found]
        assert all(a.startswith('ok') and '=new' in a and 'old' not in a for a in answers), answers
        stage.leave(found)


def barrier_opens_when_all_have_come(mode):
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*SERVE), puppets, mode, nnodes='3')
        found = stage.workers('a', 'b', 'c')
        for one in found[:2]:
            one.tell(f'barrier gate {LONG_MS}')
        # Somebody who does not come keeps it shut: the third asks for something else, and is answered.
        times_out(found[2], 'barrier another 200')
        assert [one.is_silent() for one in found[:2]] == [True, True]
        found[2].do(f'barrier gate {LONG_MS}')
        assert [one.answer() for one in found[:2]] == ['ok', 'ok']
        stage.leave(found)


def test_a_barrier_opens_when_all_have_come_in_process():
    barrier_opens_when_all_have_come('inprocess')


def test_a_barrier_opens_when_all_have_come_in_auto_mode():
    barrier_opens_when_all_have_come('auto')


def calls_after_shutdown_say_so(mode):
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*SERVE), puppets, mode, nnodes='2')
        found = stage.workers('a', 'b')
        for one in found:
            one.do('stay')  # Two seconds after the end its agent would stop it.
        found[0].tell(f'barrier gate {LONG_MS}')
        found[1].tell(f'wait {found[1].world()["generation"]} {LONG_MS}')
        stage.orchestrator.say('shutdown', stage.job.name)
        done = f'error {STATUSES["done"]} '
        for one in found:  # One that waits, then one that comes.
            answer = one.answer()
            assert answer.startswith(done), answer
        for order in ('sync tag 1000 x', 'barrier gate 1000', 'wait 0 1000'):
            answers = [one.ask(order) for one in found]
            assert all(a.startswith(done) for a in answers), (order, answers)
        assert [one.world()['ended'] for one in found] == [1, 1]
        stage.leave(found)


def test_after_shutdown_every_call_says_so_in_process():
    calls_after_shutdown_say_so('inprocess')


def test_after_shutdown_every_call_says_so_in_auto_mode():
    calls_after_shutdown_say_so('auto')


def test_a_worker_that_has_left_exits_in_its_own_time():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*SERVE), puppets, 'inprocess', nnodes='2')
        found = stage.workers('a', 'b')
        for one in found:
            one.do('leave')
        kit.wait_until(lambda: stage.job.status()['state'] == 'done', 'the job had ended')
        time.sleep(0.3)  # Each may have a model to save: nobody stops it.
        assert all(one.ask('nothing').startswith('error 0') for one in found)
        for one in found:
            one.tell('exit 0')
        assert [node.wait() for node in stage.nodes.values()] == [0, 0]


def test_a_worker_that_knows_muster_makes_the_job_in_process_and_nobody_is_restarted():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*SERVE), puppets, 'auto', nnodes='2:3')
        found = stage.workers('a', 'b')
        assert {one.rank for one in found} == {'0', '1'}  # They waited for the generation …
        generation = found[0].world()['generation']
        kit.wait_until(lambda: stage.job.status()['mode'] == 'inprocess', 'the mode was decided')
        stage.start('c')
        grown = puppets.ordered('a', 'b', 'c', generation=generation)
        assert grown[:2] == found and grown[2].rank == '-'  # … a newcomer does not.
        for one in grown:
            one.tell(f'sync tag {LONG_MS} {one.node}')
        answers = {tuple(one.answer().split()[2:]) for one in grown}
        assert [word.rpartition('=')[2] for word in answers.pop()] == [one.node for one in grown]
        assert not answers and len(puppets.all) == 3, answers
        stage.leave(grown)


def test_a_worker_of_an_in_process_job_that_is_killed_is_left_out_and_comes_back():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*SERVE), puppets, 'inprocess', nnodes='2:3')
        found = stage.workers('a', 'b', 'c')
        generation = found[0].world()['generation']
        lost = next(one for one in found if one.node == 'b')
        os.kill(lost.pid, signal.SIGKILL)
        kit.wait_until(lambda: len(puppets.of('b')) == 2, 'node b had another worker')
        again = puppets.of('b')[1]
        again.do('join')
        again.do(f'wait {generation} {LONG_MS}')
        there = together([one for one in found if one is not lost] + [again])
        assert [len(puppets.of(node)) for node in 'abc'] == [1, 2, 1]
        stage.leave(there)


def test_a_worker_of_an_in_process_job_that_stands_still_is_left_out_until_it_goes_on():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*LAPSING), puppets, 'inprocess', nnodes='1:2')
        found = stage.workers('a', 'b')
        stays, stands = sorted(found, key=lambda one: one.node)
        os.kill(stands.pid, signal.SIGSTOP)
        kit.wait_until(lambda: stays.world()['size'] == 1, 'one was left out')
        os.kill(stands.pid, signal.SIGCONT)
        found = puppets.ordered('a', 'b', generation=stays.world()['generation'])
        assert found == [stays, stands] and len(puppets.all) == 2
        stage.leave(found)


def test_a_node_of_an_in_process_job_leaves_and_the_workers_of_the_others_live_on():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*SERVE), puppets, 'inprocess', nnodes='1:3')
        found = stage.workers('a', 'b', 'c')
        generation = found[0].world()['generation']
        leaver = puppets.one('b')
        stage.nodes['b'].send(signal.SIGTERM)
        kit.wait_until(lambda: leaver.world()['ended'], 'it knew that it had left')
        leaver.tell('exit 0')  # or it would be stopped, but only after --grace
        assert stage.nodes.pop('b').wait() == 0
        left = puppets.ordered('a', 'c', generation=generation)
        assert left == [one for one in found if one is not leaver] and len(puppets.all) == 3
        generation = left[0].world()['generation']
        stage.nodes.pop('a').kill9()
        last = puppets.ordered('c', generation=generation)
        assert last == [puppets.one('c')] and len(puppets.all) == 3
        stage.leave(last)


def test_a_worker_of_an_in_process_job_that_fails_too_often_is_given_up():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*SERVE), puppets, 'inprocess', nnodes='1:2')
        found = stage.workers('a', 'b')
        generation = found[0].world()['generation']
        stays = next(one for one in found if one.node == 'a')
        next(one for one in found if one.node == 'b').tell('exit 6')
        for turn in range(2, 5):  # Three restarts, by default.
            kit.wait_until(lambda n=turn: len(puppets.of('b')) == n, 'it was started again')
            puppets.of('b')[-1].join()
            puppets.of('b')[-1].tell('exit 6')
        assert stage.nodes.pop('b').wait() == 6
        stays.do(f'wait {generation} {LONG_MS}')
        kit.wait_until(lambda: stays.world()['size'] == 1, 'the other went on alone')
        stage.leave([stays])


def test_the_last_node_of_an_in_process_job_can_be_drained():
    with kit.World() as world, Puppets(world) as puppets:
        stage = Stage(world.orchestrator(*SERVE), puppets, 'inprocess', nnodes='1')
        stage.start('a', flags=('--grace', '1'))  # So long it would wait for an heir.
        puppets.ordered('a')
        assert stage.nodes['a'].terminate() == 0


def test_a_worker_that_knows_muster_can_be_standalone_or_alone():
    with kit.World() as world, Puppets(world) as puppets:
        job = world.job(mode='auto', nproc=2, nnodes='1')
        node = job.node('a', '--standalone', script=PROGRAM, E2E_PUPPETS=puppets.path)
        kit.wait_until(lambda: len(puppets.all) == 2, 'both workers ran')
        for one in puppets.all:
            one.join()
        for one in puppets.all:
            one.do(f'wait 0 {LONG_MS}')
            one.tell(f'sync tag {LONG_MS} v{one.slot}')
        answers = [one.answer() for one in puppets.all]
        assert all('=v0' in a and '=v1' in a for a in answers), answers
        places = [one.world() for one in puppets.all]
        assert sorted(place['local_rank'] for place in places) == [0, 1], places
        assert {place['local_size'] for place in places} == {2}, places
        for one in puppets.all:
            one.do('leave')
        for one in puppets.all:
            one.tell('exit 0')
        assert node.wait() == 0


if __name__ == '__main__':
    kit.run(__name__, jobs=6)
