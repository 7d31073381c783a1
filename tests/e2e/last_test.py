#!/usr/bin/env python3
"""The last state is what all the work was for: whoever dies while it is saved, those who are left save it; if nobody
can, the run has failed, and says so.

usage: last_test.py MUSTER [CASE…]
"""
import os
import subprocess

import ckpt
import elastic
import kit
import mounts

STEPS = 15
HOURS_MS = 10_000_000


class Ending(ckpt.Saving):
    """All but the last step are done; the disk takes hours for what is saved after it."""

    def __init__(self, world, model, *flags, **more):
        self.disk = ckpt.SlowDisk(world)
        super().__init__(world, model, *flags, limit=0, serve=elastic.TOGETHER, **self.disk.env, **more)

    def begin_last(self, *folders, writers=1):
        """Until the last state is being saved in these folders."""
        self.save_upto(10, then=STEPS - 1)
        self.reach(STEPS - 1)
        self.disk.set_ms(HOURS_MS)
        self.limit(elastic.NO_LIMIT)
        for folder in folders or (self.folder,):
            ckpt.attempt_begun(folder, STEPS, writers)

    def ends_saved(self, *folders, without=()):
        self.disk.set_ms(0)
        self.ends_the_same(*set(self.nodes) - set(without))
        for folder in folders or (self.folder,):
            assert ckpt.steps_in(folder)[-1] == STEPS, ckpt.names_in(folder)
            assert ckpt.left_in(folder) == [], ckpt.left_in(folder)
            ckpt.demand_intact(folder)


# ---- who dies ----

def lose_worker(model, victim, writers):
    with kit.World() as world:
        job = Ending(world, model, nnodes='1:2')
        job.start('a', 'b')
        job.begin_last(writers=writers)
        job.kill_workers(victim)
        job.ends_saved()


def test_the_only_writer_is_killed():
    lose_worker(ckpt.small(STEPS), 'a', 1)


def test_one_of_two_writers_is_killed():
    for victim in 'ab':
        lose_worker(ckpt.large(STEPS), victim, 2)


def lose_node(model, victim, writers):
    with kit.World() as world:
        job = Ending(world, model, nnodes='1:2')
        job.start('a', 'b')
        job.begin_last(writers=writers)
        job.kill_nodes(victim)
        job.ends_saved(without=victim)


def test_the_only_writer_is_killed_with_its_node():
    lose_node(ckpt.small(STEPS), 'a', 1)


def test_one_of_two_writers_is_killed_with_its_node():
    for victim in 'ab':
        lose_node(ckpt.large(STEPS), victim, 2)


def test_one_of_two_workers_of_a_node_is_killed():
    with kit.World() as world:
        job = Ending(world, ckpt.large(STEPS), nnodes='1', nproc=2)
        job.start('a')
        job.begin_last(writers=2)
        os.kill(job.pids('a')[0], 9)
        job.ends_saved()


def test_a_host_loses_its_writer_and_the_other_host_has_it():
    for victim in 'abc':
        with kit.World() as world:
            second = os.path.join(world.dir, 'second')
            job = Ending(world, ckpt.large(STEPS), nnodes='1:3')
            hosts = [mounts.host(world, i) for i in range(2)]
            job.start('a', 'b', before=hosts[0])
            job.start('c', folder=second, before=hosts[1])
            job.begin_last(job.folder, second)
            job.kill_nodes(victim)
            job.ends_saved(job.folder, *([second] if victim != 'c' else []), without=victim)


def test_the_only_worker_is_killed():
    for nodes, workers in ((('a',), 'a'), (('a', 'b'), 'ab')):
        with kit.World() as world:
            job = Ending(world, ckpt.large(STEPS), nnodes=str(len(nodes)))
            job.start(*nodes)
            job.begin_last(writers=len(nodes))
            job.kill_workers(*workers)
            job.ends_saved()
            assert job.takeovers(), job.orchestrator.log()


# ---- who can't ----

UNSAVED = f'all {STEPS} steps are done, but no worker could save the state after the last one'


def read_only(disk, on):
    subprocess.run(['mount', '-o', f'remount,{"ro" if on else "rw"}', disk], check=True)


def cannot_save(names, spoil, mend):
    """The run fails, and says why; started again it goes on from what was saved before."""
    with kit.World() as outer:
        disk = mounts.small_disk(outer, 'disk', '64m')
        model = ckpt.large(STEPS)
        with kit.World() as world:
            job = Ending(world, model, nnodes=str(len(names)), folder=disk)
            job.start(*names)
            job.save_upto(10, then=STEPS - 1)
            job.reach(STEPS - 1)
            spoil(disk)
            job.limit(elastic.NO_LIMIT)
            codes = [job.nodes[name].wait() for name in names]
            assert 0 not in codes, codes
            assert all(UNSAVED in job.logs(name) for name in names), job.logs()
            assert ckpt.steps_in(disk) == [5, 10], ckpt.names_in(disk)
        mend(disk)
        with kit.World() as world:
            job = Ending(world, model, nnodes=str(len(names)), folder=disk)
            job.limit(elastic.NO_LIMIT)
            job.start(*names)
            job.ends_saved()
            assert job.restored() == [10], job.restored()


def test_on_a_full_disk_the_run_fails_and_goes_on_from_before_when_there_is_room():
    cannot_save('a', mounts.fill, mounts.make_room)
    cannot_save('ab', mounts.fill, mounts.make_room)


def test_on_a_disk_that_is_read_only_the_run_fails_and_goes_on_from_before_when_it_is_not():
    cannot_save('ab', lambda disk: read_only(disk, True), lambda disk: read_only(disk, False))


def test_without_an_agent_the_last_call_says_so():
    with kit.World() as world:
        disk = mounts.small_disk(world, 'disk', '1m')
        mounts.fill(disk)
        done = subprocess.run([elastic.TRAINER, '--steps', '3'], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, check=False, timeout=kit.LONG_S, env=world.env(MUSTER_CKPT_DIR=disk))
        assert done.returncode == 1, done
        assert 'all 3 steps are done, but the state after the last one could not be saved' in done.stderr, done


def test_one_host_can_and_the_other_can_not():
    with kit.World() as world:
        disk = mounts.small_disk(world, 'disk', '64m')
        job = Ending(world, ckpt.small(STEPS), nnodes='2')
        job.start('a', folder=disk, before=mounts.host(world, 0))
        job.start('b', before=mounts.host(world, 1))
        job.reach(STEPS - 1)
        mounts.fill(disk)
        job.limit(elastic.NO_LIMIT)
        job.ends_saved()


if __name__ == '__main__':
    mounts.enter()
    kit.run(__name__, 2)
