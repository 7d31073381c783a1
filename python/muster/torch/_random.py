"""Randomness is a function of where the run stands, so there is nothing of it to send or to keep.

Before each slice: of (seed, step, slice). For each sample that is fetched: of (seed, epoch, position), in whatever
process. Before and after the slices of a step: of (seed, step). Torch's default generator, `random`, and NumPy's
old global one are seeded; generators of one's own are not."""
import random
import sys

import torch

_MASK = (1 << 64) - 1
SAMPLE, BEFORE, AFTER = 1, 2, 3


def mix(*numbers):
    """One number of 64 bits out of several (splitmix64's finish, chained)."""
    state = 0
    for number in numbers:
        state = (state ^ number) + 0x9e3779b97f4a7c15 & _MASK
        state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9 & _MASK
        state = (state ^ state >> 27) * 0x94d049bb133111eb & _MASK
        state ^= state >> 31
    return state


def seed_all(seed):
    torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get('numpy.random')
    if numpy is not None:
        numpy.seed(seed & 0xffffffff)
