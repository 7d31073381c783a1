#!/usr/bin/env python3
"""Measures what the elastic step costs when nothing fails, beside the same loop with a bare
all-reduce. README.md says what each figure means.

usage: bench_step.py [--quick] FOLDER

FOLDER is where bench was built; muster is beside it. --quick is for tests: it only shows that
everything works. Prints JSON.
"""
import functools
import os
import sys

from allreduce import network
from control import measure
from step import blocks

GOAL = {'goal': 3}
BYTES, STEP_US = 10_000_000, 20_000
# Path, slices, goal, pairs of blocks.
CASES = (('shm', 8, GOAL, 20), ('shm', 2, {}, 6), ('tcp', 8, {}, 6))


def run_cases(report, programs, folder, quick):
    report.about['congestion'] = network.make_cubic()
    for path, slices, goal, pairs in CASES:
        name = f'{path}, 2 workers, 10 MB, {slices} slices, 20 ms'
        found = blocks.measure(programs, f'{folder}/{path}-{slices}', path, BYTES, slices, STEP_US,
                               5 if quick else 50, 2 if quick else pairs)
        blocks.report_pairs(report, name, found, goal)


def main(arguments):
    quick = '--quick' in arguments
    arguments = [a for a in arguments if a != '--quick']
    if len(arguments) != 1:
        sys.exit(__doc__)
    network.enter()
    build = os.path.abspath(arguments[0])
    return measure.run('step', build, {'muster': f'{build}/../muster', 'pairs': f'{build}/pairs'},
                       functools.partial(run_cases, quick=quick))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
