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
            job.start(*[f'n{i}' for i in range(size // nproc)])
            job.ends_well()
            assert len(elastic.digests(job.out())) == size


def test_mnist_has_the_same_bits_with_any_number_of_workers_by_shared_memory():
    the_bits_are_those_of_one(elastic.mnist(30), SIZES if kit.FULL else (1, 2, 3, 5))


def test_mnist_has_the_same_bits_with_any_number_of_workers_by_tcp():
    the_bits_are_those_of_one(elastic.mnist(30), SIZES[1:] if kit.FULL else (3,), MUSTER_TRANSPORT='tcp')


def test_a_trainer_has_the_same_bits_with_any_number_of_workers():
    model = elastic.trainer(70, samples=500)  # Several epochs, the last batch of each is smaller.
    the_bits_are_those_of_one(model, SIZES)
    the_bits_are_those_of_one(model, (2, 8), MUSTER_TRANSPORT='tcp')
    the_bits_are_those_of_one(model, (4, 8), nproc=2)


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
        job = elastic.Training(world, elastic.trainer(100000, '--sleep-us', '1000'))
        job.start('a', 'b')
        last = job.trained(2)
        job.start('c')
        last = job.trained(3, after=last)
        job.nodes['b'].terminate()
        last = job.trained(2, after=last)
        job.start('d')  # shrink-grow
        last = job.trained(3, after=last)
        job.nodes['a'].kill9()
        last = job.trained(2, after=last)
        assert all(len(sizes) == 1 for sizes in job.worlds().values()), job.worlds()
        assert {name: len(job.pids(name)) for name in 'abcd'} == dict.fromkeys('abcd', 1)
        assert all(kit.lives(job.pids(name)[0]) for name in 'cd')
        job.orchestrator.say('shutdown', job.job.name)
        assert [job.nodes[name].wait() for name in 'cd'] == [0, 0]


def changes_soon(job, at, size):
    """Step by step, so that it happens before the next change."""
    def look():
        nonlocal at
        if any(world == size and step > before for step, _, _, world in job.steps()):
            return True
        at += 1
        job.limit(at)
        time.sleep(0.1)
        return False
    before = at
    kit.wait_until(look, f'{size} workers trained after step {before}')


def test_the_number_of_workers_follows_its_schedule_and_those_who_are_not_needed_wait():
    """10:2, 20:3, 40:4, 50:1 of the forerunner is, here: 1 for 10 steps, 2 for 10, 3 for 20, …"""
    with kit.World() as world:
        model = elastic.trainer(70, '--sleep-us', '3000')
        job = elastic.Training(world, model, nnodes='1:4')
        job.limit(0)
        job.start('a')
        kit.wait_until(lambda: job.job.members() == ['a'], 'the first was a member')
        job.orchestrator.say('config', '--job', job.job.name, 'put', 'schedule', '1:10,2:10,3:20,4:10,1')
        job.start('b', 'c', 'd')
        kit.wait_until(lambda: sorted(job.job.waiting()) == ['b', 'c', 'd'], 'three waited')
        pids = kit.wait_until(lambda: all(job.pids(name) for name in 'abcd') and
                              {name: job.pids(name) for name in 'abcd'}, 'all had started')
        for at, size in ((10, 2), (20, 3), (40, 4), (50, 1)):
            job.limit(at)
            kit.wait_until(lambda at=at: job.step() >= at, f'step {at} was done')
            changes_soon(job, at, size)
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
        job = elastic.Training(world, model, nnodes='2:3')
        job.limit(2)
        job.start('a', 'b', 'c')
        kit.wait_until(lambda: all(len(seen(job, name)) >= 3 for name in 'abc'), 'they were in the third step')
        os.kill(job.nodes['c'].pid, signal.SIGKILL)
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
        job = elastic.Training(world, model, nnodes='2:3')
        job.limit(1)
        job.start('a', 'b')
        kit.wait_until(lambda: all(len(seen(job, name)) == 2 for name in 'ab'), 'they were in the second step')
        generation = job.job.status()['generation']
        job.orchestrator.say('config', '--job', job.job.name, 'put', 'paused', 'true')
        kit.wait_until(lambda: job.job.status()['generation'] > generation, 'a pause was planned')
        time.sleep(0.5)  # Until both have heard of it: they pause at the end of this step.
        job.limit(elastic.NO_LIMIT)
        kit.wait_until(lambda: job.job.status()['active'] == job.job.status()['generation'] > generation,
                       'it was paused')
        job.start('c')
        kit.wait_until(lambda: 'c' in job.job.waiting() + job.job.members(), 'the third was there')
        time.sleep(0.5)
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
        model = elastic.trainer(60, '--sleep-us', '2000', '--digest-every', '20', samples=4096, batch=256,
                                slices=64)
        job = elastic.Training(world, model, nnodes='1:4', nproc=16, serve=('--lease', '20', '--join-window', '30'))
        job.limit(30)
        job.start('a', 'b', 'c', 'd')
        job.trained(64, n=10)
        os.kill(job.nodes['c'].pid, signal.SIGKILL)  # Its keeper kills the workers.
        job.limit(elastic.NO_LIMIT)
        job.trained(48)
        job.ends_well('a', 'b', 'd')
        assert len(elastic.digests(job.out())) == 48
        assert all(len(job.pids(name)) == 16 for name in 'abcd')


def test_64_workers_of_the_example_lose_16_at_once_and_go_on():
    names = [f'n{i}' for i in range(8)]
    with kit.World() as world:
        model = elastic.fake(200, '--sleep-ms', '20', samples=4000, slices=64)
        job = elastic.Training(world, model, nnodes='1:8', nproc=8,
                               serve=('--lease', '20', '--join-window', '30'))
        job.start(*names)
        kit.wait_until(lambda: job.step() >= 10, 'ten steps were done')
        assert len(job.job.members()) == 64, job.job.members()
        job.nodes['n3'].kill9()
        job.nodes['n6'].kill9()
        kit.wait_until(lambda: len(job.job.members()) == 48, '48 were left')
        job.ends_well(*[name for name in names if name not in ('n3', 'n6')])
        assert len(elastic.digests(job.out())) == 48


# ---- joining ----

def test_a_joiner_that_is_killed_in_the_middle_of_joining_disturbs_nobody():
    with kit.World() as world:
        model = elastic.trainer(400, '--sleep-us', '1000', '--count', '300000', samples=300)
        job = elastic.Training(world, model, nnodes='1:4')
        job.start('a', 'b')
        job.trained(2)
        for i, wait_s in enumerate((0, 0.02, 0.05, 0.1, 0.2)):
            mark = os.path.join(world.dir, f'mark{i}')
            name = f'j{i}'
            job.start(name, TRAINER_MARK=mark)
            kit.wait_until(lambda at=mark: os.path.exists(at), 'it was about to be warm')
            time.sleep(wait_s)
            job.nodes[name].kill9()
            job.goes_on()
        job.ends_well('a', 'b')
        assert len(job.pids('a')) == len(job.pids('b')) == 1


def test_more_workers_than_slices_wait_warm_and_take_the_place_of_the_lost():
    with kit.World() as world:
        model = elastic.trainer(300, '--sleep-us', '3000', slices=2)
        job = elastic.Training(world, model, nnodes='1:4')
        job.start('a', 'b', 'c', 'd')
        kit.wait_until(lambda: job.step() > 10, 'it trained')
        job.nodes['a'].kill9()
        job.goes_on()
        job.nodes['b'].kill9()
        job.goes_on()
        job.ends_well('c', 'd')


def test_a_node_more_than_max_waits_warm_and_is_taken_in_at_once():
    with kit.World() as world:
        model = elastic.trainer(600, '--sleep-us', '2000')
        job = elastic.Training(world, model, nnodes='1:2')
        job.start('a', 'b')
        job.trained(2)
        job.start('c')
        kit.wait_until(lambda: job.job.waiting() == ['c'], 'the third waited')
        pid = kit.wait_until(lambda: job.pids('c'), 'the third had started its worker')
        last = job.trained(2, after=job.step())
        job.nodes['a'].kill9()
        job.trained(2, after=last + 1)
        kit.wait_until(lambda: job.job.members() == ['b', 'c'], 'the spare was a member')
        assert job.pids('c') == pid  # It was there already.
        job.ends_well('b', 'c')


def test_with_too_few_it_waits_in_the_middle_of_a_step_and_goes_on_when_there_are_enough():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(60, '--sleep-us', '5000'), '--max-restarts', '100', nnodes='3')
        job.start('a', 'b', 'c')
        last = job.trained(3)
        for name in 'acb':
            os.kill(job.pids(name)[-1], signal.SIGKILL)  # Its agent starts another one.
            last = job.trained(3, after=last + 1)
        job.ends_well()
        assert all(len(job.pids(name)) == 2 for name in 'abc')


# ---- leaving ----

def test_a_drained_node_leaves_at_a_boundary_and_nothing_is_computed_again():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(300, '--sleep-us', '2000'), nnodes='1:3')
        job.start('a', 'b', 'c')
        job.trained(3)
        job.orchestrator.say('drain', 'b')
        assert job.nodes['b'].wait() == 0
        assert 'left=' in job.nodes['b'].out(), job.nodes['b'].out()[-300:]
        job.ends_well('a', 'c')
        assert re.findall(r'again=(\d+)', job.out()) == ['0'] * 3, re.findall(r'again=\d+', job.out())


def test_sigterm_is_a_drain():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(300, '--sleep-us', '2000'), nnodes='1:3')
        job.start('a', 'b', 'c')
        job.trained(3)
        assert job.nodes['a'].terminate() == 0
        assert 'left=' in job.nodes['a'].out(), job.nodes['a'].out()[-300:]
        job.ends_well('b', 'c')
        assert set(re.findall(r'again=(\d+)', job.out())) == {'0'}


# ---- the orchestrator ----

def test_without_the_orchestrator_training_goes_on_and_ends_when_it_is_back():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(200, '--sleep-us', '3000'), nnodes='2')
        job.start('a', 'b')
        last = job.trained(2)
        job.orchestrator.kill9()
        job.trained(2, n=30, after=last + 5)
        job.orchestrator.start()
        job.ends_well('a', 'b')


def test_a_loss_without_the_orchestrator_pauses_until_it_is_back():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(400, '--sleep-us', '3000'), nnodes='1:3')
        job.start('a', 'b', 'c')
        job.trained(3)
        job.orchestrator.kill9()
        job.nodes['b'].kill9()
        time.sleep(1)
        last = max(job.steps('a', 'c'))[0]
        time.sleep(1)
        assert max(job.steps('a', 'c'))[0] == last, 'it went on'
        job.orchestrator.start()
        job.trained(2, after=last)
        job.ends_well('a', 'c')


def test_past_orphan_training_pauses_and_goes_on_when_the_orchestrator_is_back():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(2000, '--sleep-us', '3000'), nnodes='2',
                               serve=('--lease', '1', '--join-window', '0.2', '--orphan', '2'))
        job.start('a', 'b')
        job.trained(2)
        job.orchestrator.kill9()

        def stands():
            before = max(job.steps())[0]
            time.sleep(0.7)
            return before if max(job.steps())[0] == before else None

        last = kit.wait_until(stands, 'it paused')
        assert all(kit.lives(job.pids(name)[0]) for name in 'ab')
        job.orchestrator.start()
        job.trained(2, after=last)
        job.orchestrator.say('shutdown', job.job.name)
        assert [job.nodes[name].wait() for name in 'ab'] == [0, 0]
        assert [len(job.pids(name)) for name in 'ab'] == [1, 1]


# ---- those who stand still ----

def test_a_stopped_worker_is_left_out_and_comes_back_as_a_newcomer_in_the_same_process():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(3000, '--sleep-us', '2000'), nnodes='1:3')
        job.limit(300)
        job.start('a', 'b', 'c')
        last = job.trained(3)
        pid = job.pids('b')[0]
        os.kill(pid, signal.SIGSTOP)
        last = job.trained(2, after=last)
        os.kill(pid, signal.SIGCONT)
        job.limit(1000)
        job.trained(3, after=last)
        assert job.pids('b') == [pid]
        job.limit(elastic.NO_LIMIT)
        job.ends_well('a', 'b', 'c')


def test_a_worker_that_hangs_is_left_out_and_named_and_another_takes_its_place():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(5000, '--sleep-us', '1000'), '--step-timeout', '1',
                               nnodes='1:3')
        job.limit(0)
        job.start('a', 'b')
        job.start('c', TRAINER_HANG='60')
        changes_soon(job, 0, 3)
        job.limit(elastic.NO_LIMIT)
        last = job.trained(2, n=5, after=59)
        job.trained(3, after=last)
        assert len(job.pids('a')) == len(job.pids('b')) == 1 and len(job.pids('c')) == 2
        told = job.orchestrator.log()
        assert re.search(r"node 'c' did nothing for \d\.\d s and is left out", told), told[-3000:]
        job.orchestrator.say('shutdown', job.job.name)
        assert [job.nodes[name].wait() for name in 'abc'] == [0, 0, 0]


def test_a_worker_that_is_away_is_waited_for_and_not_taken_for_one_that_hangs():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(200, '--sleep-us', '1000'), '--step-timeout', '1',
                               nnodes='3')
        job.start('a', 'b')
        job.start('c', TRAINER_AWAY='60')
        job.ends_well('a', 'b', 'c')
        assert len({generation for _, generation, *_ in job.steps()}) == 1, job.orchestrator.log()[-3000:]
        assert [len(job.pids(name)) for name in 'abc'] == [1, 1, 1]


def test_a_gradient_in_parts_gives_the_bits_of_one_in_a_row():
    whole = elastic.trainer(60, '--count', '5000').alone()
    for transport in 'shm', 'tcp':
        for parts in '2', '16':
            with kit.World() as world:
                job = elastic.Training(world, elastic.trainer(60, '--count', '5000', '--parts', parts),
                                       nnodes='3', MUSTER_TRANSPORT=transport)
                job.start('a', 'b', 'c')
                job.ends_well('a', 'b', 'c')
                assert job.model.alone() == whole


# ---- those who are not what they should be ----

def test_a_state_that_differs_stops_the_job_and_names_the_worker():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(200, '--sleep-us', '1000', '--digest-every', '5'),
                               nnodes='3')
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


def test_a_worker_with_another_model_is_refused_and_disturbs_nobody():
    with kit.World() as world:
        job = elastic.Training(world, elastic.trainer(400, '--sleep-us', '2000'), '--max-restarts', '0',
                               nnodes='1:3')
        job.start('a', 'b')
        job.trained(2)
        job.start('c', args=('--count', '501'))
        assert job.nodes['c'].wait() != 0
        assert 'status=-18' in job.nodes['c'].out() and 'weights' in job.nodes['c'].out(), job.nodes['c'].out()
        job.ends_well('a', 'b')


if __name__ == '__main__':
    kit.run(__name__, 2)
