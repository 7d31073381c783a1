#!/usr/bin/env python3
"""What paced.c is for muster, for torchrun: an all-reduce of Gloo's in every step.

usage: torch_paced.py FOLDER NODE GRADIENT_BYTES STATE_BYTES SLICES SLICE_US

Started again it goes on as if nothing had been lost: no checkpoint is read or written. That is the
best case for it.
"""
import os
import sys
import time


def main():
    folder, node = sys.argv[1:3]
    gradient_bytes, state_bytes, slices, slice_us = (int(a) for a in sys.argv[3:])
    fd = os.open(f'{folder}/{node}.{os.getpid()}.log', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(fd, f'start {time.monotonic_ns()}\n'.encode())

    import torch  # pylint: disable=import-outside-toplevel
    import torch.distributed as dist  # pylint: disable=import-outside-toplevel
    torch.set_num_threads(1)
    dist.init_process_group('gloo')
    rank, world = dist.get_rank(), dist.get_world_size()
    weights = torch.zeros(state_bytes // 4)
    part = weights[:gradient_bytes // 4]
    pace_s = -(-slices // world) * slice_us / 1e6
    step = 0
    while True:
        asked_ns = time.monotonic_ns()
        gradient = part * 0.5 + 1
        time.sleep(max(0, pace_s - (time.monotonic_ns() - asked_ns) / 1e9))
        dist.all_reduce(gradient)
        ns = time.monotonic_ns()
        part -= gradient * (0.125 / world)
        step += 1
        os.write(fd, f'step {ns} {asked_ns} {time.monotonic_ns()} 0 {step} {rank} {world}\n'
                 .encode())


main()
