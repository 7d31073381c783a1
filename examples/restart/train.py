#!/usr/bin/env python3
"""A small data-parallel training script that knows nothing of muster.

It reads the variables that torchrun sets (RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT), adds up
gradients over TCP at rank 0, and saves a checkpoint after every step. So it can be stopped and
started at any time with another number of workers, and goes on where it was:

    muster serve &
    muster run --nnodes 1:3 examples/restart/train.py        # as often as you like

Standard library only. What it learns: y = 3 x + 1.
"""
import argparse
import json
import os
import random
import socket
import struct
import time


def all_reduce(values, rank, peers):
    """The sum over all workers, added in order of rank at rank 0."""
    if rank == 0:
        total = list(values)
        for peer in peers:
            for i, v in enumerate(receive(peer, len(values))):
                total[i] += v
        for peer in peers:
            peer.sendall(struct.pack(f'{len(total)}d', *total))
        return total
    peers[0].sendall(struct.pack(f'{len(values)}d', *values))
    return receive(peers[0], len(values))


def receive(peer, n):
    data = b''
    while len(data) < 8 * n:
        try:
            more = peer.recv(8 * n - len(data))
        except ConnectionError:
            more = b''
        if not more:
            raise SystemExit('a peer is gone')
        data += more
    return struct.unpack(f'{n}d', data)


def meet(rank, world, address, port):
    """Rank 0: connections to all others, by rank. Others: one to rank 0."""
    if rank == 0:
        server = socket.create_server((address, port), backlog=world)
        peers = {}
        while len(peers) < world - 1:
            peer, _ = server.accept()
            peers[int(receive(peer, 1)[0])] = peer
        return [peers[r] for r in sorted(peers)]
    while True:
        try:
            peer = socket.create_connection((address, port), timeout=30)
            break
        except ConnectionRefusedError:
            time.sleep(0.02)  # Rank 0 is not there yet.
    peer.settimeout(None)
    peer.sendall(struct.pack('d', rank))
    return [peer]


def load(path):
    try:
        with open(path, encoding='utf-8') as file:
            return json.load(file)
    except FileNotFoundError:
        return {'step': 0, 'a': 0.0, 'b': 0.0}


def save(path, state):
    with open(path + '.new', 'w', encoding='utf-8') as file:
        json.dump(state, file)
    os.replace(path + '.new', path)


def gradient(state, rank, step):
    draw = random.Random(step * 1000 + rank)
    ga = gb = loss = 0.0
    for _ in range(32):
        x = draw.uniform(-1, 1)
        error = state['a'] * x + state['b'] - (3 * x + 1)
        ga += 2 * error * x / 32
        gb += 2 * error / 32
        loss += error * error / 32
    return ga, gb, loss, 1.0


def main():
    options = argparse.ArgumentParser(description=__doc__.split('\n', maxsplit=1)[0])
    options.add_argument('--steps', type=int, default=100)
    options.add_argument('--step-seconds', type=float, default=0.1)
    options.add_argument('--lr', type=float, default=0.1)
    options.add_argument('--checkpoint', default='checkpoint.json')
    options.add_argument('--every', type=int, default=10, help='print one step in so many')
    args = options.parse_args()
    rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
    peers = meet(rank, world, os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))
    state = load(args.checkpoint)
    if rank == 0:
        print(f'{world} worker{"s" * (world > 1)}, from step {state["step"]}', flush=True)
    while state['step'] < args.steps:
        ga, gb, loss, n = all_reduce(gradient(state, rank, state['step']), rank, peers)
        state['a'] -= args.lr * ga / n
        state['b'] -= args.lr * gb / n
        state['step'] += 1
        time.sleep(args.step_seconds)
        if rank == 0:
            save(args.checkpoint, state)
            if state['step'] % args.every == 0 or state['step'] == args.steps:
                print(f'step {state["step"]}: y = {state["a"]:.3f} x + {state["b"]:.3f}, '
                      f'loss {loss / n:.5f}, {int(n)} worker{"s" * (n > 1)}', flush=True)


if __name__ == '__main__':
    main()
