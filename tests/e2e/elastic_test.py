#!/usr/bin/env python3
"""Training with mu_next(), in real processes: the same bits with any number of workers over any path,
each sample once, and nobody started again, whatever joins, leaves, hangs and dies.

usage: elastic_test.py MUSTER [CASE…]
"""
import os
import re
import signal
import time

import elastic
import kit

SIZES = (1, 2, 3, 4, 5, 8)


# ---- the same bits ----

def the_bits_are_those_of_one(model, sizes, nproc=1, **env):
    for size in sizes:
        with kit.World() as world:
            job = elastic.Training(world, model, nnodes=str(size // nproc), nproc=nproc, **env)
            job.start_all(*[f'n{i}' for i in range(size // nproc)])
            job.ends_well()
            assert len(elastic.digests(job.out())) == size


def test_mnist_has_the_same_bits_with_any_number_of_workers_by_shared_memory():
    the_bits_are_those_of_one(elastic.mnist(30), SIZES if kit.FULL else (1, 5))


def test_mnist_has_the_same_bits_with_any_number_of_workers_by_tcp():
    the_bits_are_those_of_one(elastic.mnist(30), SIZES[1:] if kit.FULL else (3,), MUSTER_TRANSPORT='tcp')


def test_a_trainer_has_the_same_bits_with_any_number_of_workers():
    model = elastic.trainer(70, samples=500)  # Several epochs, the last batch of each is smaller.
    the_bits_are_those_of_one(model, SIZES if kit.FULL else (2, 3, 8))
    the_bits_are_those_of_one(model, (2, 8) if kit.FULL else (5,), MUSTER_TRANSPORT='tcp')
    the_bits_are_those_of_one(model, (4, 8) if kit.FULL else (4,), nproc=2)


def by_both(model, size):
    """Every second node has no shared memory."""
    with kit.World() as world:
        job = elastic.Training(world, model, nnodes=str(size))
        for i in range(size):
            job.start(f'n{i}', MUSTER_TRANSPORT='tcp' if i % 2 else 'auto')
        job.ends_well()
        paths = set(re.findall(r'comm: rank \d+, worker \S+ by (\w+)',
                               ''.join(node.log() for node in job.nodes.values())))
        assert paths == {'shm', 'tcp'}, paths


def test_mnist_has_the_same_bits_by_both_paths_at_once():
    for size in (3, 4, 5, 8) if kit.FULL else (4,):
        by_both(elastic.mnist(30), size)


def test_the_bits_depend_on_the_number_of_slices_and_on_the_seed():
    found = {elastic.trainer(20, slices=slices).alone() for slices in (4, 8, 16)}
    found |= {elastic.trainer(20, '--seed', '2').alone()}
    assert len(found) == 4, found


# ---- 7, 10, 14 of what the forerunners have tests for ----

def test_every_step_is_made_by_all_workers_from_two_to_three_to_two_and_nobody_is_restarted():
    """shrink, grow: the number of workers that a step is made by is that of those who are there."""
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(400), limit=0)
        job.start('a', 'b')
        job.made_by(2)
        job.start('c')
        job.made_by(3)
        job.nodes['b'].send(signal.SIGTERM)
        job.made_by(2)
        assert job.nodes['b'].wait() == 0
        job.start('d')  # shrink-grow
        job.made_by(3)
        job.kill('a')
        job.made_by(2)
        assert all(len(sizes) == 1 for sizes in job.worlds().values()), job.worlds()
        assert {name: len(job.pids(name)) for name in 'abcd'} == dict.fromkeys('abcd', 1)
        assert all(kit.lives(job.pids(name)[0]) for name in 'cd')
        job.limit(elastic.NO_LIMIT)
        job.ends_well('c', 'd')


def test_the_number_of_workers_follows_its_schedule_and_those_who_are_not_needed_wait():
    """10:2, 20:3, 40:4, 50:1 of the forerunner is, here: 1 for 10 steps, 2 for 30, 3 for 30, …"""
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(200), nnodes='1:4', limit=0)
        job.start('a')
        kit.wait_until(lambda: job.job.members() == ['a'], 'the first was a member')
        job.orchestrator.say('config', '--job', job.job.name, 'put', 'schedule', '1:10,2:30,3:30,4:30,1')
        job.start('b', 'c', 'd')
        kit.wait_until(lambda: sorted(job.job.waiting()) == ['b', 'c', 'd'], 'three waited')
        pids = kit.wait_until(lambda: all(job.pids(name) for name in 'abcd') and
                              {name: job.pids(name) for name in 'abcd'}, 'all had started')
        for at, size in ((10, 2), (40, 3), (70, 4), (100, 1)):
            job.reach(at)
            job.made_by(size)  # Step by step: it happens before the next change.
            assert {name: job.pids(name) for name in 'abcd'} == pids  # Nobody is started for it …
            assert all(kit.lives(pid) for found in pids.values() for pid in found)  # … or ended.
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a')
        assert all(len(sizes) == 1 for sizes in job.worlds().values()), job.worlds()
        sizes = [next(iter(found)) for _, found in sorted(job.worlds().items())]
        changes = [size for i, size in enumerate(sizes) if i == 0 or size != sizes[i - 1]]
        assert changes == [1, 2, 3, 4, 1], sizes
        assert sizes[:10] == [1] * 10, sizes


# ---- 8, 9: one element for each worker and step ----

ELEMENT = re.compile(r'element=(\d+) value=(.) generation=(\d+) step=(\d+)')


def seen(job, name):
    """The values that a node's worker has seen, by step; of a step that was done again the last."""
    return [value for _, value in sorted({int(step): value for _, value, _, step
                                          in ELEMENT.findall(job.nodes[name].out())}.items())]


def test_three_workers_see_1_2_and_then_two_see_3_to_6():
    text = '11122233445566'
    with kit.World() as world:
        model = elastic.Model(elastic.TRAINER, len(text), 1, 6, '--shard', text)
        model.args = ('--shard', text)
        job = elastic.Training(world, model, nnodes='2:3', serve=elastic.TOGETHER, limit=2)
        job.start('a', 'b', 'c')
        kit.wait_until(lambda: all(len(seen(job, name)) >= 3 for name in 'abc'), 'they were in the third step')
        job.kill('c')
        kit.wait_until(lambda: job.job.members() == ['a', 'b'], 'two were left')
        job.limit(elastic.NO_LIMIT)
        assert [job.nodes[name].wait() for name in 'ab'] == [0, 0]
        assert seen(job, 'a') == seen(job, 'b') == list('123456'), (seen(job, 'a'), seen(job, 'b'))
        assert seen(job, 'c')[:2] == ['1', '2']


def test_the_design_notes_list_gives_every_node_1_to_5_with_sizes_2_2_3_3_3():
    text = '1122333444555'
    with kit.World() as world:
        model = elastic.Model(elastic.TRAINER, len(text), 1, 5, '--shard', text)
        model.args = ('--shard', text)
        job = elastic.Training(world, model, nnodes='2:3', limit=1)
        job.start('a', 'b')
        kit.wait_until(lambda: all(len(seen(job, name)) == 2 for name in 'ab'), 'they were in the second step')
        generation = job.job.status()['generation']
        job.orchestrator.say('config', '--job', job.job.name, 'put', 'paused', 'true')
        # They pause at the end of the step in which both have heard of it.
        kit.wait_until(lambda: all(job.heard(name)[0] > generation for name in 'ab'), 'both had heard of the pause')
        job.limit(elastic.NO_LIMIT)
        kit.wait_until(lambda: job.job.status()['active'] > generation, 'it was paused')
        job.start('c')
        job.settled('a', 'b', 'c')
        job.orchestrator.say('config', '--job', job.job.name, 'put', 'paused', 'false')
        assert [job.nodes[name].wait() for name in 'abc'] == [0, 0, 0]
        assert seen(job, 'a') == seen(job, 'b') == list('12345'), (seen(job, 'a'), seen(job, 'b'))
        assert seen(job, 'c') == list('345'), seen(job, 'c')


def test_with_more_workers_than_slices_every_element_is_seen_once_all_the_same():
    text = '1234567'
    with kit.World() as world:
        model = elastic.Model(elastic.TRAINER, len(text), 1, 4, slices=2)
        model.args = ('--shard', text, '--slices', '2')
        job = elastic.Training(world, model, nnodes='3:3')
        job.start('a', 'b', 'c')
        assert [job.nodes[name].wait() for name in 'abc'] == [0, 0, 0]
        assert sorted(sum((seen(job, name) for name in 'abc'), [])) == list(text)


# ---- 64 workers ----

def test_64_workers_lose_16_at_once_and_go_on_with_the_same_bits():
    with kit.World() as world:
        model = elastic.trainer(40, '--digest-every', '20', samples=4096, batch=256, slices=64)
        job = elastic.Training(world, model, nnodes='1:4', nproc=16, serve=elastic.TOGETHER, limit=20)
        job.start('a', 'b', 'c', 'd')
        kit.wait_until(lambda: job.whole(20) == 64, 'all of them were in step 21')
        job.kill('c')
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b', 'd')
        assert len(elastic.digests(job.out())) == 48
        assert set(job.worlds()[40]) == {48}, job.worlds()
        assert all(len(job.pids(name)) == 16 for name in 'abcd')


def test_64_workers_of_the_example_lose_16_at_once_and_go_on():
    """It has no limit that it obeys: they are lost while the job is paused."""
    names = [f'n{i}' for i in range(8)]
    with kit.World() as world:
        model = elastic.fake(20, samples=4000, slices=64)
        job = elastic.Training(world, model, nnodes='1:8', nproc=8, serve=elastic.TOGETHER)
        job.start(names[0])
        job.orchestrator.say('config', '--job', job.job.name, 'put', 'paused', 'true')
        job.start(*names[1:])
        job.settled(*names)
        assert len(job.job.members()) == 64, job.job.members()
        job.kill('n3', 'n6')
        left = [name for name in names if name not in ('n3', 'n6')]
        job.settled(*left)
        assert len(job.job.members()) == 48, job.job.members()
        job.orchestrator.say('config', '--job', job.job.name, 'put', 'paused', 'false')
        job.ends_well(*left)
        assert len(elastic.digests(job.out())) == 48


# ---- joining ----

def test_a_joiner_that_is_killed_in_the_middle_of_joining_disturbs_nobody():
    with kit.World() as world:
        model = elastic.trainer(300, '--count', '100000', samples=300, batch=8)
        job = elastic.Training(world, model, nnodes='1:4', limit=0)
        job.start('a', 'b')
        job.made_by(2)
        for i, wait_s in enumerate((0, 0.02, 0.05, 0.1, 0.2) if kit.FULL else (0, 0.05, 0.2)):
            mark = os.path.join(world.dir, f'mark{i}')
            name = f'j{i}'
            job.limit(job.at + 20)  # They train meanwhile, but never to the end.
            job.start(name, TRAINER_MARK=mark)
            kit.wait_until(lambda at=mark: os.path.exists(at), 'it was about to be warm')
            time.sleep(wait_s)
            job.kill(name)
            job.reach(job.at)
            job.made_by(2)
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b')
        assert len(job.pids('a')) == len(job.pids('b')) == 1


def test_more_workers_than_slices_wait_warm_and_take_the_place_of_the_lost():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(100, slices=2), nnodes='1:4', serve=elastic.TOGETHER, limit=0)
        job.start('a', 'b', 'c', 'd')
        job.reach(5)
        for victim, left in (('a', 'bcd'), ('b', 'cd')):
            job.kill(victim)
            kit.wait_until(lambda left=left: sorted({*job.job.members(), *job.job.waiting()}) == list(left),
                           'the others were left')
            job.reach(job.at + 5)
        job.limit(elastic.NO_LIMIT)
        job.ends_well('c', 'd')
        assert [len(job.pids(name)) for name in 'cd'] == [1, 1]


def test_a_node_more_than_max_waits_warm_and_is_taken_in_at_once():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(300), nnodes='1:2', limit=0)
        job.start('a', 'b')
        job.made_by(2)
        job.start('c')
        kit.wait_until(lambda: job.job.waiting() == ['c'], 'the third waited')
        pid = kit.wait_until(lambda: job.pids('c'), 'the third had started its worker')
        job.reach(job.at + 3)
        job.kill('a')
        job.made_by(2)
        kit.wait_until(lambda: job.job.members() == ['b', 'c'], 'the spare was a member')
        assert job.pids('c') == pid  # It was there already.
        job.limit(elastic.NO_LIMIT)
        job.ends_well('b', 'c')


def test_with_too_few_it_waits_in_the_middle_of_a_step_and_goes_on_when_there_are_enough():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(100), '--max-restarts', '100', nnodes='3', limit=0)
        job.start('a', 'b', 'c')
        job.made_by(3)
        for name in 'acb':
            os.kill(job.pids(name)[-1], signal.SIGKILL)  # Its agent starts another one.
            kit.wait_until(lambda name=name: not kit.lives(job.pids(name)[0]), 'it was dead')
            job.made_by(3)
        job.limit(elastic.NO_LIMIT)
        job.ends_well()
        assert {size for sizes in job.worlds().values() for size in sizes} == {3}, job.worlds()
        assert all(len(job.pids(name)) == 2 for name in 'abc')


# ---- leaving ----

def test_drained_or_by_sigterm_a_node_leaves_at_a_boundary_and_nothing_is_computed_again():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(200), nnodes='1:4', serve=elastic.TOGETHER, limit=0)
        job.start('a', 'b', 'c', 'd')
        job.made_by(4)
        job.orchestrator.say('drain', 'b')
        job.made_by(3)
        job.nodes['a'].send(signal.SIGTERM)
        job.made_by(2)
        for name in 'ab':
            assert job.nodes[name].wait() == 0
            assert 'left=' in job.nodes[name].out(), job.nodes[name].out()[-300:]
        job.limit(elastic.NO_LIMIT)
        job.ends_well('c', 'd')
        assert re.findall(r'again=(\d+)', job.out()) == ['0'] * 4, re.findall(r'again=\d+', job.out())


# ---- the orchestrator ----

def test_without_the_orchestrator_training_goes_on_and_ends_when_it_is_back():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(100), nnodes='2', limit=0)
        job.start('a', 'b')
        job.made_by(2)
        job.orchestrator.kill9()
        job.reach(60)
        job.limit(elastic.NO_LIMIT)
        kit.wait_until(lambda: job.last('a') == job.last('b') == 100, 'all steps were done')
        job.orchestrator.start()
        job.ends_well('a', 'b')


def test_a_loss_without_the_orchestrator_pauses_until_it_is_back():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(300), nnodes='1:3', serve=kit.LAPSING, limit=0)
        job.start('a', 'b', 'c')
        job.made_by(3)
        last = job.at
        job.orchestrator.kill9()
        job.kill('b')
        job.limit(elastic.NO_LIMIT)
        time.sleep(0.5)
        assert job.last('a', 'c') == last, 'it went on'
        job.orchestrator.start()
        job.ends_well('a', 'c')


def test_past_orphan_training_pauses_and_goes_on_when_the_orchestrator_is_back():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(100), nnodes='2', limit=0,
                               serve=(*kit.LAPSING, '--orphan', '2'))
        job.start('a', 'b')
        job.made_by(2)
        last = job.at
        job.orchestrator.kill9()
        time.sleep(2.1)  # They were heard before it was killed.
        job.limit(elastic.NO_LIMIT)
        time.sleep(0.5)
        assert job.last() == last, 'it went on'
        assert all(kit.lives(job.pids(name)[0]) for name in 'ab')
        job.orchestrator.start()
        job.ends_well('a', 'b')
        assert [len(job.pids(name)) for name in 'ab'] == [1, 1]


# ---- those who stand still ----

def test_a_stopped_worker_is_left_out_and_comes_back_as_a_newcomer_in_the_same_process():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(400), nnodes='1:3', serve=kit.LAPSING, limit=0)
        job.start('a', 'b', 'c')
        job.made_by(3)
        pid = job.pids('b')[0]
        os.kill(pid, signal.SIGSTOP)
        kit.wait_until(lambda: 'b' not in job.job.members(), 'it was left out')
        job.made_by(2)
        os.kill(pid, signal.SIGCONT)
        job.made_by(3)
        assert job.pids('b') == [pid]
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b', 'c')


def test_a_worker_that_hangs_is_left_out_and_named_and_another_takes_its_place():
    with kit.World() as world:
        # It is ended when it has not noticed for as long again, or for a lease.
        job = elastic.Training(world, elastic.trainer(400), '--step-timeout', '2', nnodes='1:3',
                               serve=kit.LAPSING, limit=0)
        job.start('a', 'b')
        job.start('c', TRAINER_HANG='60')
        job.made_by(3)
        job.reach(65)
        kit.wait_until(lambda: len(job.pids('c')) == 2, 'another had taken its place')
        job.made_by(3)
        assert {size for step in range(60, 66) for size in job.worlds()[step]} == {2}, job.worlds()
        assert [len(job.pids(name)) for name in 'abc'] == [1, 1, 2]
        told = job.orchestrator.log()
        assert re.search(r"node 'c' did nothing for \d\.\d s and is left out", told), told[-3000:]
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b', 'c')


def test_a_worker_that_is_away_is_waited_for_and_not_taken_for_one_that_hangs():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(80), '--step-timeout', '2', nnodes='3')
        job.start('a', 'b')
        job.start('c', TRAINER_AWAY='60')
        job.ends_well('a', 'b', 'c')
        assert len({generation for _, generation, *_ in job.steps()}) == 1, job.orchestrator.log()[-3000:]
        assert [len(job.pids(name)) for name in 'abc'] == [1, 1, 1]


def test_a_gradient_in_parts_gives_the_bits_of_one_in_a_row():
    whole = elastic.trainer(60, '--count', '5000').alone()
    ways = [('shm', '16'), ('tcp', '2'), ('shm', '2'), ('tcp', '16')]
    for transport, parts in ways if kit.FULL else ways[:2]:
        with kit.World() as world:
            job = elastic.Training(world, elastic.trainer(60, '--count', '5000', '--parts', parts),
                                   nnodes='3', MUSTER_TRANSPORT=transport)
            job.start_all('a', 'b', 'c')
            job.ends_well('a', 'b', 'c')
            assert job.model.alone() == whole


# ---- those who are not what they should be ----

def test_a_state_that_differs_stops_the_job_and_names_the_worker():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(200, '--digest-every', '5'), nnodes='3')
        job.start('a', 'b')
        job.start('c', TRAINER_CORRUPT='22')
        codes = [job.nodes[name].wait() for name in 'abc']
        assert 0 not in codes, codes
        assert max(job.steps())[0] <= 25, max(job.steps())
        assert [len(job.pids(name)) for name in 'abc'] == [1, 1, 1]
        told = re.findall(r'failed=mu_next status=-20 why=(.*)', job.out())
        assert told and all('n3.0#1' in why for why in told), job.out()[-2000:]
        assert not elastic.digests(job.out())
        status = job.job.status()
        assert status['state'] == 'failed', status
        assert 'differ' in status['why'] and 'n3.0#1' in status['why'], status['why']


def test_the_last_state_is_compared_too_and_what_differs_is_named():
    """Of a job that is shorter than the interval at which states are compared."""
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(20, '--digest-every', '100'), nnodes='3')
        job.start('a', 'b')
        job.start('c', TRAINER_CORRUPT='20')
        codes = [job.nodes[name].wait() for name in 'abc']
        assert 0 not in codes, codes
        told = re.findall(r'failed=mu_next status=-20 why=(.*)', job.out())
        assert told and all('after the last step' in why and 'n3.0#1' in why for why in told), job.out()[-2000:]
        assert any("'weights'" in why and "'momentum'" not in why for why in told), told
        assert job.job.status()['state'] == 'failed', job.job.status()


def test_a_worker_with_another_model_is_refused_and_disturbs_nobody():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(300), '--max-restarts', '0', nnodes='1:3', limit=0)
        job.start('a', 'b')
        job.made_by(2)
        job.start('c', args=('--count', '501'))
        job.step_until(job.nodes['c'].ended, 'it had ended')
        assert job.nodes['c'].wait() != 0
        assert 'status=-18' in job.nodes['c'].out() and 'weights' in job.nodes['c'].out(), job.nodes['c'].out()
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b')


if __name__ == '__main__':
    kit.run(__name__, 2)
