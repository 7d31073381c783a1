#!/usr/bin/env python3
"""States that are kept in memory, and checkpoints that are wanted now: with --keep-in-memory one step is done
again at most, whenever all workers die; people, and a node that leaves, have a checkpoint made.

A failure names its seed: SEED=n runs that one alone. MUSTER_TEST_FULL=1 runs all.

usage: [SEED=n] keep_test.py MUSTER [CASE…]
"""
import os
import random
import re
import signal
import time

import ckpt
import elastic
import kit
import mounts

SEED = int(os.environ.get('SEED', '1'))
STARTS = re.compile(r'generation (\d+) starts from step (\d+)')


class Keeping(elastic.Training):
    """Without a folder on a disk."""

    def __init__(self, world, model, **more):
        super().__init__(world, model, '--max-restarts', '1000', '--keep-in-memory', **more)

    def starts(self):
        """(generation, step) of each start from what was kept."""
        logs = ''.join(node.log() for node in self.nodes.values())
        return sorted(tuple(map(int, found)) for found in STARTS.findall(logs))

    def folders(self):
        """Where states were read from."""
        logs = ''.join(node.log() for node in self.nodes.values())
        return set(re.findall(r'is restored from (/dev/shm/\S+)/default', logs))


# ---- in memory ----

def kill_all_again_and_again(model, seed, kills_n, **more):
    chance = random.Random(seed)
    with kit.World() as world:
        job = Keeping(world, model, limit=0, **more)
        job.start('a', 'b', 'c')
        done = 0
        for i in range(kills_n):
            at = done + chance.randrange(2, 8)
            job.limit(at + 4)
            kit.wait_until(lambda at=at: job.last() >= at, f'step {at} was done (seed {seed})')
            time.sleep(chance.random() / 20)
            job.kill_workers()
            kit.wait_until(lambda i=i: len(job.starts()) > i, f'there were {i + 1} starts (seed {seed})')
            done = max(job.steps())[0]
            generation, back = job.starts()[i]
            last = max(step for step, number, _, _ in job.steps() if number < generation)
            assert back >= last - 1, f'seed {seed}: back to {back}, and {last} was done'
        job.limit(elastic.NO_LIMIT)
        codes = [node.wait() for node in job.nodes.values()]
        assert set(codes) == {0}, codes
        found = elastic.digests(job.out())
        assert found and set(found) == {model.alone()}, (seed, found)
        assert len(job.folders()) == 1
        assert not any(map(os.path.exists, job.folders())), 'what was kept in memory is still there'


def test_all_workers_are_killed_at_any_moment_and_one_step_is_done_again_at_most():
    for seed in range(1, 4) if kit.FULL and 'SEED' not in os.environ else [SEED]:
        kill_all_again_and_again(ckpt.small(200 if kit.FULL else 60, '--sleep-us', '3000'), seed,
                                 20 if kit.FULL else 5)


def test_of_a_larger_state_too():
    kill_all_again_and_again(ckpt.large(120 if kit.FULL else 40), SEED, 12 if kit.FULL else 3)


def has_files(folder):
    return any(files for *_, files in os.walk(folder))


def test_a_node_that_leaves_takes_away_what_it_has_kept_if_no_other_is_there():
    with ckpt.new_folder() as first, ckpt.new_folder() as second, kit.World() as world:
        job = Keeping(world, ckpt.small(100000), nnodes='1:3', limit=0)
        job.start('a', before=mounts.over(first, '/dev/shm'))
        job.start('b', 'c', before=mounts.over(second, '/dev/shm'))
        job.made_by(3)
        job.step_until(lambda: has_files(second), 'something was kept')
        for name, stays in (('b', True), ('c', False)):
            job.orchestrator.say('drain', name)
            job.trickle_until(job.nodes[name].ended, f'{name} had left')
            assert job.nodes[name].wait() == 0
            assert bool(os.listdir(second)) == stays, os.listdir(second)
        assert os.listdir(first), 'what is in use was taken away'
        job.orchestrator.say('shutdown', job.job.name)
        job.limit(elastic.NO_LIMIT)
        assert job.nodes['a'].wait() == 0
        assert not os.listdir(first), os.listdir(first)


def test_jobs_of_one_orchestrator_leave_each_others_alone():
    with ckpt.new_folder() as memory, kit.World() as world:
        job = Keeping(world, ckpt.small(100000), nnodes='1', limit=0)
        job.start('a', before=mounts.over(memory, '/dev/shm'))
        job.step_until(lambda: has_files(memory), 'something was kept')
        other = job.orchestrator.job('other', nnodes='1', mode='inprocess')
        node = other.node('b', *job.flags, script=job.model.program, args=ckpt.small(10).args,
                          before=mounts.over(memory, '/dev/shm'))
        assert node.wait() == 0
        assert has_files(memory), 'what the other job keeps was taken away'
        job.orchestrator.say('shutdown', job.job.name)
        job.limit(elastic.NO_LIMIT)
        assert job.nodes['a'].wait() == 0
        assert not os.listdir(memory), os.listdir(memory)


def kill_whole(job, name):
    """The agent, its keeper and its workers, as kill -9 does. The keeper first: nobody is left who could clean up."""
    node = job.nodes[name]
    keepers = [pid for pid in node.pids() if kit.stat_of(pid)[1] == node.pid]
    assert len(keepers) == 1, keepers
    node.stop()
    os.kill(keepers[0], signal.SIGKILL)
    node.kill9()
    job.kill_workers(name)
    job.kill(name)


def age(folder, hours):
    """As if nothing had been written there for so long."""
    at = time.time() - hours * 3600
    for path, _, files in os.walk(folder):
        for one in (*files, '.'):
            os.utime(os.path.join(path, one), (at, at))


def test_what_killed_agents_have_left_is_swept_by_the_next_on_this_host_when_nobody_can_need_it():
    with ckpt.new_folder() as memory, kit.World() as world:
        before = mounts.over(memory, '/dev/shm')
        job = Keeping(world, ckpt.small(100000), nnodes='1', limit=0)

        def another_comes(name):
            """One of another job, which keeps nothing itself; until it has looked."""
            other = job.orchestrator.job(name, nnodes='1')
            node = other.node(name, before=before, MUSTER_LOG='debug')
            node.wait_log('/dev/shm was looked through')
            other.ends_well(node)

        job.start('a', before=before)
        job.step_until(lambda: has_files(memory), 'something was kept')
        kept = os.listdir(memory)
        age(memory, 2)
        another_comes('first')
        assert os.listdir(memory) == kept and has_files(memory), 'what a living agent holds was taken away'

        kill_whole(job, 'a')
        age(memory, 0.5)
        another_comes('second')
        assert os.listdir(memory) == kept and has_files(memory), 'what is new was taken away'
        age(memory, 2)
        earlier = os.path.join(memory, kept[0].replace('-1-default', '-0-default'))
        os.mkdir(earlier, 0o700)  # Of a run that is over, however new it is.
        job.start('a', before=before)  # What it has left itself is its own, however old it is.
        kit.wait_until(lambda: 'a' in job.job.waiting(), 'it was there again')
        job.orchestrator.say('takeover', job.job.name)  # Nobody was left to say that the first a is dead.
        kit.wait_until(job.folders, 'it went on from what was kept')
        kit.wait_until(lambda: os.listdir(memory) == kept, 'what an earlier run had left was gone')

        kill_whole(job, 'a')
        age(memory, 2)
        another_comes('third')
        assert not os.listdir(memory), os.listdir(memory)


def test_where_there_is_no_room_it_is_said_at_the_start_and_in_the_status():
    with kit.World() as world:
        memory = mounts.small_disk(world, 'memory', '8m')
        model = ckpt.large(1000)
        job = Keeping(world, model, nnodes='1', limit=0)
        job.start('a', before=mounts.over(memory, '/dev/shm'))
        job.nodes['a'].wait_log('has 8.4 MB, and 3 copies of the state take 26.4 MB')
        job.reach(5)
        kit.wait_until(lambda: [m.get('memory') for m in job.job.status()['members']] == ['not kept'],
                       'the status said so')
        assert 'not kept' in job.orchestrator.say('status', job.job.name)
        said = job.nodes['a'].log()
        assert said.count('the state is not kept in memory') == 1, said
        mounts.grow(memory, '64m')
        job.step_until(lambda: not any('memory' in m for m in job.job.status()['members']), 'it was kept again')
        job.orchestrator.say('shutdown', job.job.name)
        job.limit(elastic.NO_LIMIT)
        assert job.nodes['a'].wait() == 0


# ---- wanted now ----

def test_people_can_want_a_checkpoint():
    with kit.World() as world:
        job = ckpt.Saving(world, ckpt.small(1000), every='1h', nnodes='2', limit=0)
        job.start('a', 'b')
        job.reach(5)
        assert 'saves a checkpoint after its next step' in job.orchestrator.say('ckpt', 'save', job.job.name)
        job.step_until(lambda: len(ckpt.steps_in(job.folder)) == 1, 'one was saved')
        job.wait_saved(ckpt.steps_in(job.folder)[0])
        job.orchestrator.say('ckpt', 'save', job.job.name)
        job.step_until(lambda: len(ckpt.steps_in(job.folder)) == 2, 'another one was saved')
        job.orchestrator.say('shutdown', job.job.name)
        job.limit(elastic.NO_LIMIT)
        assert [job.nodes[name].wait() for name in 'ab'] == [0, 0]


def test_a_node_that_leaves_has_a_checkpoint_made_and_nothing_is_lost_with_the_last():
    with ckpt.new_folder() as folder:
        model = ckpt.small(1000)
        with kit.World() as world:
            job = ckpt.Saving(world, model, '--grace', '60', every='1h', folder=folder, nnodes='1', limit=0)
            job.start('a')
            job.reach(5)
            job.nodes['a'].send(signal.SIGTERM)
            steps = job.step_until(lambda: ckpt.steps_in(folder), 'one was saved')
            job.nodes['a'].terminate()  # Nobody comes in its place: it need not wait any longer.
        with kit.World() as world:
            job = ckpt.Saving(world, model, every='1h', folder=folder, nnodes='1')
            job.start('a')
            job.ends_the_same()
            assert job.restored() == steps, (job.restored(), steps)


if __name__ == '__main__':
    mounts.enter()
    kit.run(__name__, 2)
