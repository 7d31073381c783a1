#!/usr/bin/env python3
"""The data plane with real workers (examples/allreduce.c): they add vectors, and compare each sum
with what it must be, while others are killed, stand still, and join. Nobody is restarted for that.

usage: comm_test.py MUSTER [CASE…]
"""
import contextlib
import os
import random
import re
import signal
import time

import kit

PROGRAM = os.path.abspath(os.path.join(os.environ.get('E2E_PROGRAMS', '.'),
                                       '../../examples/allreduce'))
LINE = re.compile(r'step=(\d+) generation=(\d+) rank=(-?\d+) size=(\d+) event=(\w+)')
FOR_EVER = ('--steps', '1000000000', '--step-ms', '2', '--count', '20000')
FEW = ('--steps', '10', '--step-ms', '0')


class Stage:
    """Nodes of one job, a worker each."""

    def __init__(self, world, *flags, nnodes='1:4', mode='inprocess', args=FOR_EVER, serve=kit.SERVE, **env):
        self.orchestrator = world.orchestrator(*serve)
        self.job = self.orchestrator.job(nnodes=nnodes, mode=mode)
        self.flags = flags
        self.args = args
        self.env = env
        self.nodes = {}

    def start(self, *names):
        """They tell of their steps often, however long a lease is."""
        for name in names:
            self.nodes[name] = self.job.node(name, '--monitor-interval', '0.1', *self.flags, script=PROGRAM,
                                             args=self.args, **self.env)
            self.nodes[name].wait_log('in job ')

    def lines(self, name, event=None):
        """What the worker of a node has said: (step, generation, rank, size, event) each."""
        found = [(*map(int, m.groups()[:4]), m.group(5))
                 for m in LINE.finditer(self.nodes[name].out())]
        assert 'wrong' not in [line[4] for line in found], f'{name}: a wrong sum'
        return [line for line in found if event in (None, line[4])]

    def pid(self, name):
        """Of its worker, which must be the only one that it has started."""
        node = self.nodes[name]
        found = re.findall(r'pid ([1-9]\d*)', node.log())
        assert len(set(found)) == 1, f'{name} has started its worker again: {found}'
        return int(found[0])

    def together(self, *names, after=0):
        """Waits until exactly these make their calls in one group newer than `after`; gives its
        generation and the step that they had then."""
        def look():
            last = [self.lines(name, 'group')[-1:] for name in names]
            if not all(last):
                return None
            groups = {(line[0][1], line[0][3]) for line in last}
            (generation, size), *others = groups
            if others or size != len(names) or generation <= after:
                return None
            return generation, {line[0][0] for line in last}

        generation, steps = kit.wait_until(look, f'{names} were in one group after {after}')
        assert len(steps) == 1, f'{names} began generation {generation} with steps {steps}'
        return generation, steps.pop()

    def step(self):
        """How far the job has come, as the orchestrator knows."""
        return (self.job.status() or {}).get('step', 0)

    def goes_on(self):
        before = self.step()
        kit.wait_until(lambda: self.step() > before + 20, f'a step after {before} was done')

    def end(self, *names):
        self.orchestrator.say('shutdown', self.job.name)
        codes = {name: self.nodes[name].wait() for name in names}
        assert set(codes.values()) == {0}, codes
        for name in names:
            assert self.lines(name)[-1][4] == 'done', self.lines(name)[-1]


# ---- paths ----

def paths(log):
    return re.findall(r'comm: rank \d+, worker \S+ by (\w+)', log)


def sums_are_right_and_paths_are_logged(path, **env):
    with kit.World() as world:
        stage = Stage(world, nnodes='3', args=('--steps', '20', '--step-ms', '0'), **env)
        stage.start('a', 'b', 'c')
        codes = [node.wait() for node in stage.nodes.values()]
        assert codes == [0, 0, 0], codes
        for name, node in stage.nodes.items():
            assert stage.lines(name)[-1][0] == 20, stage.lines(name)[-1]
            assert stage.lines(name)[-1][4] == 'done', stage.lines(name)[-1]
            assert paths(node.log()) == [path, path], paths(node.log())


def test_workers_of_one_host_share_memory_and_say_so():
    sums_are_right_and_paths_are_logged('shm')


def test_by_tcp_if_that_is_what_is_wanted():
    sums_are_right_and_paths_are_logged('tcp', MUSTER_TRANSPORT='tcp')


def test_by_tcp_with_tls():
    sums_are_right_and_paths_are_logged('tcp', MUSTER_TRANSPORT='tcp', MUSTER_TLS='1')


def test_by_the_interface_that_is_named():
    with kit.World() as world:
        stage = Stage(world, nnodes='2', args=FEW, MUSTER_TRANSPORT='tcp', MUSTER_IFACE='lo')
        stage.start('a', 'b')
        assert [node.wait() for node in stage.nodes.values()] == [0, 0]
    with kit.World() as world:
        stage = Stage(world, nnodes='1', MUSTER_IFACE='nosuch0')
        node = stage.job.node('a', script=PROGRAM, MUSTER_IFACE='nosuch0')
        assert node.wait() != 0
        assert "MUSTER_IFACE is 'nosuch0'" in node.log(), node.log()


def test_in_every_mode_a_group_forms_at_the_addresses_that_agents_gave_out():
    for mode in ('auto', 'restart', 'inprocess'):
        with kit.World() as world:
            stage = Stage(world, nnodes='2', mode=mode, args=FEW)
            stage.start('a', 'b')
            assert [node.wait() for node in stage.nodes.values()] == [0, 0], mode
            assert stage.lines('a')[-1][0] == 10, (mode, stage.lines('a'))


# ---- losses and joins ----

def survivors_go_on_and_a_newcomer_joins(**env):
    with kit.World() as world:
        stage = Stage(world, **env)
        stage.start('a', 'b', 'c')
        generation, _ = stage.together('a', 'b', 'c')
        stage.goes_on()
        pids = {name: stage.pid(name) for name in 'ac'}
        stage.nodes['b'].kill9()
        generation, after_loss = stage.together('a', 'c', after=generation)
        assert after_loss > 0
        stage.goes_on()
        stage.start('d')
        _, after_join = stage.together('a', 'c', 'd', after=generation)
        assert after_join > after_loss
        stage.goes_on()
        assert pids == {name: stage.pid(name) for name in 'ac'}
        assert all(kit.lives(pid) for pid in pids.values())
        stage.end('a', 'c', 'd')


def test_survivors_of_a_kill_go_on_and_a_newcomer_joins_by_shared_memory():
    survivors_go_on_and_a_newcomer_joins()


def test_survivors_of_a_kill_go_on_and_a_newcomer_joins_by_tcp():
    survivors_go_on_and_a_newcomer_joins(MUSTER_TRANSPORT='tcp')


def test_survivors_with_memory_of_their_own_go_on_too():
    with kit.World() as world:
        stage = Stage(world, args=(*FOR_EVER, '--plain'))
        stage.start('a', 'b', 'c')
        generation, _ = stage.together('a', 'b', 'c')
        stage.goes_on()
        stage.nodes['a'].kill9()  # Rank 0: the others get other ranks.
        stage.together('b', 'c', after=generation)
        stage.goes_on()
        stage.end('b', 'c')


def test_every_sum_is_of_all_workers_from_two_to_three_to_two_in_the_same_processes():
    with kit.World() as world:
        stage = Stage(world)
        stage.start('a', 'b')
        generation, _ = stage.together('a', 'b')
        stage.goes_on()
        pids = {name: stage.pid(name) for name in 'ab'}
        stage.start('c')
        generation, _ = stage.together('a', 'b', 'c', after=generation)
        stage.goes_on()
        assert stage.nodes['c'].terminate() == 0
        stage.together('a', 'b', after=generation)
        stage.goes_on()
        assert pids == {name: stage.pid(name) for name in 'ab'}
        stage.end('a', 'b')


def a_worker_that_is_killed_comes_back(**env):
    """Its agent starts it again: it is a newcomer, and has the step of the others."""
    with kit.World() as world:
        stage = Stage(world, nnodes='2:3', **env)
        stage.start('a', 'b', 'c')
        generation, _ = stage.together('a', 'b', 'c')
        pids = {name: stage.pid(name) for name in 'abc'}
        stage.goes_on()
        os.kill(pids['c'], signal.SIGKILL)
        generation, step = stage.together('a', 'b', 'c', after=generation)
        assert step > 0
        stage.goes_on()
        assert all(kit.lives(pids[name]) for name in 'ab')
        assert pids['a'] == stage.pid('a') and pids['b'] == stage.pid('b')
        stage.end('a', 'b', 'c')


def test_a_worker_that_is_killed_comes_back_by_shared_memory():
    a_worker_that_is_killed_comes_back()


def test_a_worker_that_is_killed_comes_back_by_tcp():
    a_worker_that_is_killed_comes_back(MUSTER_TRANSPORT='tcp')


def a_worker_that_stands_still_is_left_out(**env):
    """… and begins anew when it wakes up, in the same process."""
    with kit.World() as world:
        stage = Stage(world, nnodes='2:3', serve=kit.LAPSING, **env)
        stage.start('a', 'b', 'c')
        generation, _ = stage.together('a', 'b', 'c')
        pid = stage.pid('b')
        stage.goes_on()
        os.kill(pid, signal.SIGSTOP)
        generation, _ = stage.together('a', 'c', after=generation)
        stage.goes_on()
        os.kill(pid, signal.SIGCONT)
        _, step = stage.together('a', 'b', 'c', after=generation)
        assert step > 0 and len(stage.lines('b', 'left')) == 1, stage.lines('b')
        stage.goes_on()
        assert stage.pid('b') == pid
        stage.end('a', 'b', 'c')


def test_a_worker_that_stands_still_is_left_out_and_begins_anew_by_shared_memory():
    a_worker_that_stands_still_is_left_out()


def test_a_worker_that_stands_still_is_left_out_and_begins_anew_by_tcp():
    a_worker_that_stands_still_is_left_out(MUSTER_TRANSPORT='tcp')


# ---- whatever comes ----

def newest_pid(node):
    found = re.findall(r'pid ([1-9]\d*)', node.log())
    return int(found[-1]) if found else 0


# 0: it is killed; otherwise it stands still for so many seconds, a moment or longer than its lease.
HARMS = (0, 0, 0, 0, 0, 0, 0.1, kit.LEASE_S + 0.6) * (8 if kit.FULL else 1)


def harm(pid, still_s):
    with contextlib.suppress(ProcessLookupError):  # Its agent may have ended it.
        if not still_s:
            os.kill(pid, signal.SIGKILL)
            return
        os.kill(pid, signal.SIGSTOP)
        time.sleep(still_s)
        os.kill(pid, signal.SIGCONT)


def whatever_comes_the_sums_are_right(**env):
    """Workers are killed and stopped at random, also two at a time; agents start them again. All who
    begin a generation do so with the same step: a step counts for all of them or for none."""
    seed = random.SystemRandom().randrange(1 << 30)
    chance = random.Random(seed)
    with kit.World() as world:
        stage = Stage(world, '--max-restarts', '1000', serve=kit.LAPSING, **env)
        stage.start('a', 'b', 'c', 'd')
        for still_s in chance.sample(HARMS, len(HARMS)):
            time.sleep(chance.choice((0.02, 0.2, 0.5)))
            node = stage.nodes[chance.choice('abcd')]
            harm(kit.wait_until(lambda node=node: newest_pid(node), 'it had a worker'), still_s)
        kit.wait_until(lambda: len(stage.job.members()) == 4, f'all were back (seed {seed})')
        stage.goes_on()
        steps = {}
        for name in 'abcd':
            for step, generation, *_ in stage.lines(name, 'group'):
                steps.setdefault(generation, set()).add(step)
        assert {len(found) for found in steps.values()} == {1}, (seed, steps)
        stage.end('a', 'b', 'c', 'd')


def test_whatever_comes_the_sums_are_right_by_shared_memory():
    whatever_comes_the_sums_are_right()


def test_whatever_comes_the_sums_are_right_by_tcp():
    whatever_comes_the_sums_are_right(MUSTER_TRANSPORT='tcp')


if __name__ == '__main__':
    kit.run(__name__, 2)
