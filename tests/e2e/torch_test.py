#!/usr/bin/env python3
"""An ordinary PyTorch script with DistributedDataParallel (examples/restart/ddp.py) on nodes that die and come.

usage: torch_test.py MUSTER [CASE…]
"""
import math
import os
import re
import subprocess

import kit
import tap

LEASE_S = 2
SERVE = ('--lease', str(LEASE_S), '--join-window', '0.3')
PYTHON = '/usr/bin/python3'  # The one that has Debian's torch.
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *'../../examples/restart/ddp.py'.split('/'))
STEP = re.compile(r'^\[0\] step (\d+) of \d+, (\d+) workers, loss (\S+)$', re.M)
BEGIN = re.compile(r'^\[(\d+)\] rank (\d+) of (\d+) begins with step (\d+)$', re.M)


def need_torch():
    if subprocess.run([PYTHON, '-c', 'import torch.distributed as d; assert d.is_available()'],
                      check=False, stderr=subprocess.DEVNULL).returncode != 0:
        tap.skip(f'{PYTHON} has no torch (package python3-torch)')


def start(job, name, *flags, steps):
    args = ('--checkpoint', os.path.join(job.dir, 'ddp.pt'), '--steps', str(steps), '--pause', '0.02')
    return job.node(name, '--max_restarts', '0', *flags, script=SCRIPT, args=args, PYTHON_EXEC=PYTHON)


def steps_of(nodes):
    """(step, size of the world, loss), of whoever was rank 0 at that time."""
    return [(int(step), int(world), float(loss)) for node in nodes
            for step, world, loss in STEP.findall(node.out())]


def loss_of(trained, begin, end):
    return sum({step: loss for step, _, loss in trained if begin <= step < end}.values())


def trains_with(nodes, world, after):
    """Waits until a step later than `after` was done by so many workers; gives that step."""
    def found():
        assert not any(node.ended() for node in nodes), 'an agent gave up'
        return [s for s, w, _ in steps_of(nodes) if w == world and s > after]

    return kit.wait_until(found, f'{world} workers trained beyond step {after}', 120)[-1]


def worlds(node):
    """(rank, size, first step) of each start of its script."""
    return [(int(rank), int(world), int(step))
            for said, rank, world, step in BEGIN.findall(node.out()) if said == rank]


def test_a_ddp_script_goes_on_when_a_node_is_killed_and_when_one_comes():
    need_torch()
    with kit.World() as world:
        job = world.orchestrator(*SERVE).job(nnodes='1:3')
        a, b, c = nodes = [start(job, name, steps=300) for name in 'abc']
        killed_at = trains_with(nodes, 3, after=10)
        b.kill9()
        alone_at = trains_with([a, c], 2, after=killed_at)
        d = start(job, 'd', steps=300)
        trains_with([a, c, d], 3, after=alone_at)
        codes = [node.wait() for node in (a, c, d)]
        assert codes == [0, 0, 0], codes  # Nobody's budget, which is 0, was spent by the others' death.
        ends = [worlds(node)[-1] for node in (a, c, d)]
        assert sorted(rank for rank, _, _ in ends) == [0, 1, 2], ends
        assert {size for _, size, _ in ends} == {3} and len({step for _, _, step in ends}) == 1, ends
        assert ends[0][2] >= alone_at // 5 * 5, (ends, alone_at)  # From the newest checkpoint.
        trained = steps_of([a, b, c, d])
        assert {step for step, _, _ in trained} == set(range(300))
        assert all(math.isfinite(loss) for _, _, loss in trained)
        assert loss_of(trained, 280, 300) < loss_of(trained, 0, 20)
        assert all(node.out().count('has finished') == 1 for node in (a, c, d))


def test_a_ddp_script_runs_standalone_with_two_workers():
    need_torch()
    with kit.World() as world:
        job = world.job(nproc=2, nnodes='1')
        node = start(job, 'a', '--standalone', steps=40)
        assert node.wait() == 0
        assert sorted(worlds(node)) == [(0, 2, 0), (1, 2, 0)], node.out()
        assert [step for step, _, _ in steps_of([node])] == list(range(40))
        assert node.out().count('has finished') == 2


def test_a_ddp_worker_that_is_killed_is_started_again_with_its_peers():
    need_torch()
    with kit.World() as world:
        job = world.job(nproc=2, nnodes='1')
        node = start(job, 'a', '--standalone', steps=120)
        at = trains_with([node], 2, after=10)
        victim = kit.wait_until(lambda: [pid for pid in node.pids() if b'RANK=1' in environ(pid)],
                                'rank 1 was there')[0]
        os.kill(victim, 9)
        trains_with([node], 2, after=at + 5)
        assert node.wait() == 0, node.log()
        assert [(rank, size) for rank, size, _ in sorted(worlds(node))] == [(0, 2)] * 2 + [(1, 2)] * 2
        assert {step for step, _, _ in steps_of([node])} == set(range(120))


def environ(pid):
    try:
        with open(f'/proc/{pid}/environ', 'rb') as file:
            return file.read().split(b'\0')
    except OSError:
        return []


if __name__ == '__main__':
    kit.run(__name__, jobs=2)
