#!/usr/bin/env python3
"""Measures what an all-reduce of 4 KB costs more from Python than from C, on the same run in the same
process. README.md says what each figure means.

usage: bench_binding.py [--quick] FOLDER

FOLDER is where bench was built; muster and python/muster are beside it. --quick is for tests: it
only shows that everything works. Prints JSON.
"""
import functools
import os
import statistics
import subprocess
import sys

from control import measure
from control.process import LONG, Failed, environment

PYTHON = '/usr/bin/python3'
GOAL = {'goal': 5}
WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'binding', 'worker.py')


def blocks_of(programs, folder, world, calls, rounds):
    """By name: the µs of each block's calls."""
    out = f'{folder}/blocks.{world}'
    command = [WORKER, programs['loops'], out, *map(str, (world, calls, rounds))]
    if world == 1:
        command = [PYTHON, *command]
    else:
        command = [programs['muster'], 'run', '--standalone', '--mode', 'inprocess', '--nproc-per-node', str(world),
                   '--', *command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          check=False, timeout=3 * LONG, text=True,
                          env=environment(folder, PYTHONPATH=programs['package'], PYTHON_EXEC=PYTHON,
                                          PYTHONDONTWRITEBYTECODE='1'))
    if done.returncode != 0:
        raise Failed(f'the workers ended with {done.returncode}: {done.stdout[-2000:]}')
    found = {}
    with open(out, encoding='ascii') as file:
        for name, *us in (line.split() for line in file):
            found.setdefault(name, []).append([float(one) for one in us])
    return found


def run_cases(report, programs, folder, quick):
    calls, rounds = (50, 3) if quick else (2000, 15)
    for world, name in ((1, 'alone'), (2, 'shm, 2 workers')):
        found = blocks_of(programs, folder, world, calls, rounds)
        for kind, words in (('c', 'mu_allreduce()'), ('extension', '_muster.Run.make()'), ('python', 'Run.allreduce()')):
            report.add_all(f'{name}, 4 KB: {words}', [us for block in found[kind] for us in block], 'us')
        for kind, words in (('extension', '_muster.Run.make()'), ('python', 'Run.allreduce()')):
            more = [statistics.median(ours) - statistics.median(c) for ours, c in zip(found[kind], found['c'])]
            report.add_all(f'{name}, 4 KB: {words} takes more, by the median call', more, 'us', **GOAL)


def main(arguments):
    quick = '--quick' in arguments
    arguments = [a for a in arguments if a != '--quick']
    if len(arguments) != 1:
        sys.exit(__doc__)
    build = os.path.abspath(arguments[0])
    programs = {'muster': f'{build}/../muster', 'package': f'{build}/../python', 'loops': f'{build}/loops.abi3.so'}
    if not os.path.exists(programs['loops']):
        sys.exit('bench_binding: this build has no Python package (python3-dev is missing)')
    return measure.run('binding', build, programs, functools.partial(run_cases, quick=quick))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
