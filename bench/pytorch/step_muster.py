#!/usr/bin/env python3
"""Steps with muster.torch. Rank 0 writes down how long each took, in µs.

usage: step_muster.py MODEL SLICES STEPS FILE
"""
import sys
import time

import muster.torch
from torch import nn

import models


def main():
    name, slices, steps, path = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    model, data, batch, optimizer = models.make(name)
    loss_fn = nn.CrossEntropyLoss()
    run = muster.torch.join(model, optimizer, steps=steps)
    times = []
    for epoch in run.epochs():
        for step in epoch.steps(data, global_batch=batch, slices=slices, seed=1):
            for x, y in step:
                step.backward(loss_fn(model(x), y))
            optimizer.step()
            times.append(time.monotonic_ns())
    if run.rank == 0:
        with open(path, 'w', encoding='ascii') as file:
            file.write(' '.join(str((b - a) / 1e3) for a, b in zip(times, times[1:])))


main()
