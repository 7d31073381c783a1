#!/usr/bin/env python3
"""An ordinary PyTorch script with DistributedDataParallel, as one would start it with torchrun; it knows nothing
of muster.

It saves a checkpoint every few steps and begins with the newest, so it can be stopped and started at any time
with another number of workers, and goes on where it was:

    muster serve &
    muster run --nnodes 1:3 examples/restart/ddp.py --checkpoint /shared/ddp.pt    # as often as you like

or, on one machine, without an orchestrator:

    muster run --standalone --nproc-per-node 2 examples/restart/ddp.py

What it learns: the product of a matrix and a vector, on the CPU (gloo).
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

BATCH = 48  # of all workers together


def samples(step, rank, world):
    """This rank's part of the batch of that step, the same at every start."""
    source = torch.Generator().manual_seed(step)
    x = torch.randn(BATCH, 8, generator=source)
    y = x @ torch.arange(1.0, 9.0) + 1
    return x[rank::world], y[rank::world, None]


def load(path, model, optimizer):
    """The step to go on with."""
    if not os.path.exists(path):
        return 0
    state = torch.load(path)
    model.load_state_dict(state['model'])
    optimizer.load_state_dict(state['optimizer'])
    return state['step']


def save(path, model, optimizer, step):
    state = {'model': model.state_dict(), 'optimizer': optimizer.state_dict(), 'step': step}
    torch.save(state, path + '.new')
    os.replace(path + '.new', path)


def train(args, rank, world):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    begin = load(args.checkpoint, model, optimizer)
    print(f'rank {rank} of {world} begins with step {begin}', flush=True)
    parallel = DistributedDataParallel(model)
    for step in range(begin, args.steps):
        x, y = samples(step, rank, world)
        loss = torch.nn.functional.mse_loss(parallel(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f'step {step} of {args.steps}, {world} workers, loss {loss.item():.4f}', flush=True)
            if (step + 1) % args.every == 0:
                save(args.checkpoint, model, optimizer, step + 1)
        time.sleep(args.pause)
    print(f'rank {rank} of {world} has finished', flush=True)


def main():
    parser = argparse.ArgumentParser(description='PyTorch DDP with checkpoints')
    parser.add_argument('--steps', type=int, default=200)
    parser.add_argument('--every', type=int, default=5, help='steps from checkpoint to checkpoint')
    parser.add_argument('--checkpoint', default='ddp.pt', help='where it is; all nodes must see it')
    parser.add_argument('--pause', type=float, default=0, help='seconds after each step, to watch it')
    args = parser.parse_args()
    dist.init_process_group('gloo')
    train(args, dist.get_rank(), dist.get_world_size())
    dist.barrier()
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
