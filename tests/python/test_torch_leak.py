"""Many small steps: nothing grows."""
import gc
import os
import sys

import pytest
import torch
from torch import nn

import torch_kit as kit
from cluster import FULL

STEPS = 10000 if FULL else 2000


def resident():
    with open('/proc/self/statm', encoding='ascii') as file:
        return int(file.read().split()[1]) * os.sysconf('SC_PAGE_SIZE')


def measure():
    gc.collect()
    return {'objects': len(gc.get_objects()), 'blocks': sys.getallocatedblocks(), 'bytes': resident()}


@pytest.mark.plain
def test_many_steps_leak_nothing():
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(net.parameters())
    data = kit.dataset(32)
    marks = []
    with kit.joined(net, optimizer, metrics=('loss', 'size')) as run:
        for epoch in run.epochs(STEPS // 2):
            for step in epoch.steps(data, global_batch=16, slices=2):
                for x, y in step:
                    run.log(size=len(x))
                    step.backward(nn.functional.mse_loss(net(x), y))
                optimizer.step()
                run.state['steps'] = step.number
                if step.number in (STEPS // 10, STEPS):
                    marks.append(measure())
    first, last = marks
    assert run.state['steps'] == STEPS
    assert abs(last['objects'] - first['objects']) < 50, marks
    assert abs(last['blocks'] - first['blocks']) < 500, marks
    assert last['bytes'] - first['bytes'] < STEPS << 10, marks


def test_runs_that_are_left_are_forgotten():
    """Models, gradients and hooks of earlier runs in a process are not kept."""
    import weakref
    found = []
    for _ in range(3):
        net = kit.model()
        _, run = kit.train(net)
        found += [weakref.ref(net), weakref.ref(run.loop.grads), weakref.ref(run.loop)]
        del net, run
    gc.collect()
    assert [ref() for ref in found] == [None] * 9
