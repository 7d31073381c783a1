#!/usr/bin/env python3
"""The same steps with torch's DistributedDataParallel. Rank 0 writes down how long each took, in µs.

usage: step_ddp.py MODEL BACKEND STEPS FILE
"""
import sys
import time

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

import models


def batches(data, batch):
    """Of this rank, epoch after epoch."""
    sampler = DistributedSampler(data, seed=1)
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from DataLoader(data, batch // dist.get_world_size(), sampler=sampler, drop_last=True)
        epoch += 1


def main():
    name, backend, steps, path = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
    if backend == 'muster':
        import muster.torch  # pylint: disable=import-outside-toplevel,unused-import
    dist.init_process_group(backend)
    model, data, batch, optimizer = models.make(name)
    parallel = DistributedDataParallel(model)
    loss_fn = nn.CrossEntropyLoss()
    times = []
    for _, (x, y) in zip(range(steps), batches(data, batch)):
        optimizer.zero_grad(set_to_none=True)
        loss_fn(parallel(x), y).backward()
        optimizer.step()
        times.append(time.monotonic_ns())
    if dist.get_rank() == 0:
        with open(path, 'w', encoding='ascii') as file:
            file.write(' '.join(str((b - a) / 1e3) for a, b in zip(times, times[1:])))
    dist.barrier()


if __name__ == '__main__':
    main()
