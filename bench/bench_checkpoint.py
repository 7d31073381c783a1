#!/usr/bin/env python3
"""Measures what checkpoints cost a training, and how fast they are written and restored, beside memcpy, dd and
torch. README.md says what each figure means.

usage: bench_checkpoint.py [--quick] FOLDER

FOLDER is where bench was built; muster is beside it. --quick is for tests: it only shows that
everything works. Prints JSON.
"""
import functools
import os
import sys

from checkpoint import cost, turns
from control import measure, torchrun

FULL = {'bytes': 1_000_000_000, 'turns': 5, 'saves': 2, 'cost_bytes': 100_000_000, 'step_ms': 100, 'block': 30,
        'pairs': 10}
QUICK = {'bytes': 10_000_000, 'turns': 2, 'saves': 2, 'cost_bytes': 1_000_000, 'step_ms': 10, 'block': 10,
         'pairs': 2}


def run_parts(report, programs, folder, size, quick):
    torch = None if quick else torchrun.version()
    if torch is None and not quick:
        measure.note(f'{torchrun.PYTHON} has no torch: it is left out')
    report.about['torch'] = torch
    all_turns = turns.Turns(programs, f'{folder}/turn', size['bytes'], size['saves'], torch is not None)
    all_turns.run(size['turns'])
    all_turns.report(report, f'{size["bytes"] / 1e9:.3g} GB')
    cost.run(report, programs, f'{folder}/cost', size['cost_bytes'], size['step_ms'], size['block'], size['pairs'])


def main(arguments):
    quick = '--quick' in arguments
    arguments = [a for a in arguments if a != '--quick']
    if len(arguments) != 1:
        sys.exit(__doc__)
    build = os.path.abspath(arguments[0])
    return measure.run('checkpoint', build, {'muster': f'{build}/../muster', 'saves': f'{build}/saves'},
                       functools.partial(run_parts, size=QUICK if quick else FULL, quick=quick))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
