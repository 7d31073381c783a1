#!/usr/bin/env python3
"""Measures training with muster.torch beside torch's own: steps, and what a lost worker costs.
README.md says what each figure means.

usage: bench_torch.py [--quick] FOLDER [PART...]

FOLDER is where bench was built; muster and python/muster are beside it. Parts: step, recovery; both
by default. --quick is for tests: it only shows that everything works. Prints JSON.
"""
import functools
import os
import sys

from allreduce import network
from control import measure, torchrun
from pytorch import kills, steps

PARTS = ('step', 'recovery')
# Steps in a turn, turns, kills of ours, of torchrun's.
FULL = {'cnn': 60, 'mlp': 30, 'turns': 5, 'ours': 10, 'theirs': 5}
QUICK = {'cnn': 3, 'mlp': 2, 'turns': 1, 'ours': 1, 'theirs': 0}


def run_parts(report, programs, folder, parts, size):
    report.about['congestion'] = network.make_cubic()
    version = torchrun.version()
    report.about['torch'] = version
    if 'step' in parts:
        for model in ('cnn', 'mlp'):
            steps.run(report, programs, f'{folder}/{model}', model, size[model], size['turns'])
    if 'recovery' in parts:
        kills.run(report, programs, folder, '.'.join(version.split('.')[:2]) if size['theirs'] else None,
                  steps.free_port, size['ours'], size['theirs'])


def main(arguments):
    quick = '--quick' in arguments
    arguments = [a for a in arguments if a != '--quick']
    parts = arguments[1:] or PARTS
    if not arguments or not set(parts) <= set(PARTS):
        sys.exit(__doc__)
    if torchrun.version() is None:
        sys.exit(f'{torchrun.PYTHON} has no torch (package python3-torch)')
    network.enter()
    build = os.path.abspath(arguments[0])
    programs = {'muster': f'{build}/../muster', 'package': f'{build}/../python'}
    return measure.run('torch', build, programs,
                       functools.partial(run_parts, parts=parts, size=QUICK if quick else FULL))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
