#!/usr/bin/env python3
"""The same training for torchrun: DistributedDataParallel on gloo, with a checkpoint every 50 steps.

usage: ddp_saved.py FOLDER NODE CHECKPOINT

Writes down when its steps were done; see recovery/marks.py.
"""
import os
import sys
import time

SAVE_EVERY = 50


def main():
    folder, node, path = sys.argv[1:]
    fd = os.open(f'{folder}/{node}.{os.getpid()}.log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f'start {time.monotonic_ns()}\n'.encode())

    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    from torch import nn  # pylint: disable=import-outside-toplevel
    import models  # pylint: disable=import-outside-toplevel
    import step_ddp  # pylint: disable=import-outside-toplevel

    dist.init_process_group('gloo')
    rank, world = dist.get_rank(), dist.get_world_size()
    model, data, batch, optimizer = models.make('cnn')
    step = 0
    if os.path.exists(path):
        state = torch.load(path)
        model.load_state_dict(state['model'])
        optimizer.load_state_dict(state['optimizer'])
        step = state['step']
    parallel = nn.parallel.DistributedDataParallel(model)
    loss_fn = nn.CrossEntropyLoss()
    for x, y in step_ddp.batches(data, batch):
        optimizer.zero_grad(set_to_none=True)
        loss_fn(parallel(x), y).backward()
        optimizer.step()
        step += 1
        ns = time.monotonic_ns()
        os.write(fd, f'step {ns} {ns} {ns} 0 {step} {rank} {world}\n'.encode())
        if rank == 0 and step % SAVE_EVERY == 0:
            torch.save({'model': model.state_dict(), 'optimizer': optimizer.state_dict(),
                        'step': step}, path + '.new')
            os.replace(path + '.new', path)


main()
