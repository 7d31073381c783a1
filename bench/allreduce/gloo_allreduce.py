#!/usr/bin/env python3
"""Gloo's all-reduce through torch.distributed, as mpi_allreduce.c measures MPI's.

usage: gloo_allreduce.py RANKS SECONDS BATCHES BYTES...

Forks the ranks itself; prints one JSON object a size, as mpi_allreduce.c does.
"""
import json
import os
import sys
import tempfile
import time

import torch
import torch.distributed as dist

WARM_ROUNDS = 3


def batch(tensor, rounds):
    """Of the slowest rank, in seconds."""
    dist.barrier()
    start = time.perf_counter()
    for _ in range(rounds):
        dist.all_reduce(tensor)
    took = torch.tensor([time.perf_counter() - start], dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def check(count, rank, size):
    """Sums of small whole numbers are exact, so any order gives them."""
    numbers = torch.arange(count, dtype=torch.float32) % 1000
    tensor = numbers + rank
    dist.all_reduce(tensor)
    if not torch.equal(tensor, numbers * size + size * (size - 1) // 2):
        raise RuntimeError('a result is wrong')


def measure(bytes_n, seconds, batches, rank, size):
    tensor = torch.zeros(bytes_n // 4, dtype=torch.float32)
    check(bytes_n // 4, rank, size)
    for _ in range(WARM_ROUNDS):
        dist.all_reduce(tensor)
    rounds = 1
    each = batch(tensor, rounds)
    while each < seconds / 4:
        rounds *= 2
        each = batch(tensor, rounds)
    rounds = int(rounds * seconds / each) + 1
    return {'bytes': bytes_n, 'rounds': rounds,
            'us': [batch(tensor, rounds) / rounds * 1e6 for _ in range(batches)]}


def run(rank, size, store, seconds, batches, sizes):
    torch.set_num_threads(1)
    dist.init_process_group('gloo', init_method=f'file://{store}', rank=rank, world_size=size)
    for bytes_n in sizes:
        result = measure(bytes_n, seconds, batches, rank, size)
        if rank == 0:
            print(json.dumps(result), flush=True)
    dist.destroy_process_group()


def main(arguments):
    size, seconds, batches = int(arguments[0]), float(arguments[1]), int(arguments[2])
    sizes = [int(a) for a in arguments[3:]]
    os.environ['GLOO_SOCKET_IFNAME'] = 'lo'
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(size):
            pid = os.fork()
            if pid == 0:
                try:
                    run(rank, size, f'{folder}/store', seconds, batches, sizes)
                except BaseException as error:  # pylint: disable=broad-except
                    print(f'gloo_allreduce: rank {rank}: {error}', file=sys.stderr, flush=True)
                    os._exit(1)
                os._exit(0)
            children.append(pid)
        return max(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0 for pid in children)


if __name__ == '__main__':
    if len(sys.argv) < 5:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
