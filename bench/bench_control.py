#!/usr/bin/env python3
"""Measures the orchestrator and its agents as real processes: how soon a loss is repaired, and
how many nodes one orchestrator holds. README.md says what each figure means.

usage: bench_control.py [--quick] FOLDER [PART...]

FOLDER is where bench was built; muster is beside it. Parts: failures, torchrun, scale; all by
default. --quick is for tests: it only shows that everything works. Prints JSON.
"""
import functools
import os
import socket
import sys

from control import failures, measure, scale, torchrun

PARTS = ('failures', 'torchrun', 'scale')


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


def run_torchrun(report, programs, folder, ours_ms):
    found = torchrun.version()
    if found is None:
        measure.note(f'{torchrun.PYTHON} has no torch: torchrun is left out')
        return
    times = torchrun.measure(programs, os.path.join(folder, 'torchrun'), free_port, 2)
    for kind in ('default', 'tuned'):
        name = f'agent killed: torchrun {".".join(found.split(".")[:2])}, {kind}'
        report.add_all(f'{name}: survivors run again', times[kind], 'ms')
        if ours_ms is not None:
            report.add(f'{name}, as a multiple of ours', report.results[-1]['value'] / ours_ms,
                       'times')


def run_parts(report, programs, folder, parts, quick):
    ours_ms = None
    if 'failures' in parts:
        ours_ms = failures.run(report, programs, folder, *((2, 1, 1) if quick else (50, 12, 7)))
    if 'torchrun' in parts and not quick:
        run_torchrun(report, programs, folder, ours_ms)
    if 'scale' in parts and quick:
        scale.quick(report, programs, folder)
    elif 'scale' in parts:
        scale.run(report, programs, folder)


def main(arguments):
    quick = '--quick' in arguments
    arguments = [a for a in arguments if a != '--quick']
    parts = arguments[1:] or PARTS
    if not arguments or not set(parts) <= set(PARTS):
        sys.exit(__doc__)
    build = os.path.abspath(arguments[0])
    programs = {'muster': f'{build}/../muster', 'stamp': f'{build}/stamp',
                'swarm': f'{build}/swarm'}
    return measure.run('control', build, programs,
                       functools.partial(run_parts, parts=parts, quick=quick))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
