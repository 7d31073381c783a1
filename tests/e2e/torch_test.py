#!/usr/bin/env python3
"""An ordinary PyTorch script with DistributedDataParallel (examples/restart/ddp.py) on nodes that die and come.

usage: torch_test.py MUSTER [CASE…]
"""
import functools
import math
import os
import re
import subprocess

import kit
import tap

PYTHON = '/usr/bin/python3'  # The one that has Debian's torch.
SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), *'../../examples/restart/ddp.py'.split('/'))
STEP = re.compile(r'^\[0\] step (\d+) of \d+, (\d+) workers, loss (\S+)$', re.M)
BEGIN = re.compile(r'^\[(\d+)\] rank (\d+) of (\d+) begins with step (\d+)$', re.M)
STEPS = 80
AT_GATE = 12  # steps that a script does until it is let go on
EVERY = 5     # steps from checkpoint to checkpoint


@functools.cache
def has_torch():
    return subprocess.run([PYTHON, '-c', 'import torch.distributed as d; assert d.is_available()'],
                          check=False, stderr=subprocess.DEVNULL).returncode == 0


def need_torch():
    if not has_torch():
        tap.skip(f'{PYTHON} has no torch (package python3-torch)')


def set_gate(job):
    with open(os.path.join(job.dir, 'gate'), 'w', encoding='ascii') as file:
        file.write(str(AT_GATE))


def open_gate(job):
    os.remove(os.path.join(job.dir, 'gate'))


def start(job, name, *flags):
    args = (SCRIPT, '--checkpoint', os.path.join(job.dir, 'ddp.pt'), '--steps', str(STEPS), '--every', str(EVERY))
    return job.node(name, '--max_restarts', '0', *flags, script='gated.py', args=args, PYTHON_EXEC=PYTHON)


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
        job = world.orchestrator(*kit.SERVE).job(nnodes='1:3')
        set_gate(job)
        a, b, c = nodes = [start(job, name) for name in 'abc']
        # At the gate: what rank 0 has printed by then is not lost with its agent.
        killed_at = trains_with(nodes, 3, after=AT_GATE - 2)
        b.kill9()
        two_at = trains_with([a, c], 2, after=killed_at)
        d = start(job, 'd')
        trains_with([a, c, d], 3, after=two_at)
        open_gate(job)
        codes = [node.wait() for node in (a, c, d)]
        assert codes == [0, 0, 0], codes  # Nobody's budget, which is 0, was spent by the others' death.
        ends = [worlds(node)[-1] for node in (a, c, d)]
        assert sorted(rank for rank, _, _ in ends) == [0, 1, 2], ends
        assert {size for _, size, _ in ends} == {3} and len({step for _, _, step in ends}) == 1, ends
        assert ends[0][2] >= two_at // EVERY * EVERY, (ends, two_at)  # From the newest checkpoint.
        trained = steps_of([a, b, c, d])
        assert {step for step, _, _ in trained} == set(range(STEPS))
        assert all(math.isfinite(loss) for _, _, loss in trained)
        assert loss_of(trained, STEPS - 20, STEPS) < loss_of(trained, 0, 20)
        assert all(node.out().count('has finished') == 1 for node in (a, c, d))


def test_a_ddp_script_runs_standalone_and_a_worker_that_is_killed_is_started_again_with_its_peer():
    need_torch()
    with kit.World() as world:
        job = world.job(nproc=2, nnodes='1')
        set_gate(job)
        node = start(job, 'a', '--standalone')
        trains_with([node], 2, after=AT_GATE - 2)
        kit.wait_until(lambda: sorted(worlds(node)) == [(0, 2, 0), (1, 2, 0)], 'both had said that they began')
        assert [step for step, _, _ in steps_of([node])] == list(range(AT_GATE)), node.out()
        victim, = [pid for pid in node.pids() if b'RANK=1' in environ(pid)]
        os.kill(victim, 9)
        kit.wait_until(lambda: len(worlds(node)) == 4, 'both were started again', 120)
        open_gate(job)
        assert node.wait() == 0, node.log()
        begin = AT_GATE // EVERY * EVERY
        assert sorted(worlds(node)) == [(0, 2, 0), (0, 2, begin), (1, 2, 0), (1, 2, begin)], node.out()
        assert [step for step, _, _ in steps_of([node])] == [*range(AT_GATE), *range(begin, STEPS)]
        assert node.out().count('has finished') == 2


def environ(pid):
    try:
        with open(f'/proc/{pid}/environ', 'rb') as file:
            return file.read().split(b'\0')
    except OSError:
        return []


if __name__ == '__main__':
    kit.run(__name__, jobs=2)
