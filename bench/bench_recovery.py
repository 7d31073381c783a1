#!/usr/bin/env python3
"""Measures what losses, joins and resizes cost a training, beside torchrun. README.md says what each
figure means.

usage: bench_recovery.py [--quick] FOLDER [PART...]

FOLDER is where bench was built; muster is beside it. Parts: kills, resize, join, goodput, torchrun;
all by default. --quick is for tests: it only shows that everything works. Prints JSON.
"""
import functools
import os
import shutil
import socket
import sys

from allreduce import network
from control import measure, torchrun
from control.process import Failed
from recovery import carry, changes, exact, goodput, kills, torch_kills
from recovery.shape import Shape

PARTS = ('kills', 'resize', 'join', 'goodput', 'torchrun')
FULL = {'shape': Shape(), 'kills': 20, 'resizes': 20, 'state': 256_000_000, 'joins': 5,
        'cycles': 6, 'cycle_s': 5}
QUICK = {'shape': Shape(100_000, 100_000, 8, 1000), 'kills': 2, 'resizes': 2, 'state': 4_000_000,
         'joins': 1, 'cycles': 1, 'cycle_s': 2}


def free_port():
    with socket.socket() as probe:
        probe.bind(('127.0.0.1', 0))
        return probe.getsockname()[1]


class Run:
    """The parts, in order; each has a folder of its own."""

    def __init__(self, report, programs, folder, size):
        self.report = report
        self.programs = programs
        self.folder = folder
        self.size = size
        self.counts = exact.Counts()
        self.ours_ms = {}

    def kills(self):
        self.ours_ms = kills.run(self.report, self.programs, f'{self.folder}/kills', self.counts,
                                 self.size['shape'], self.size['kills'])

    def resize(self):
        changes.run_resize(self.report, self.programs, f'{self.folder}/resize', self.counts,
                           self.size['shape'], self.size['resizes'])

    def join(self):
        shape = Shape(self.size['shape'].gradient_bytes, self.size['state'],
                      self.size['shape'].slices, self.size['shape'].slice_us)
        for path in ('shm', 'tcp'):
            bandwidth = carry.bandwidth(self.programs, f'{self.folder}/join-carry-{path}', path,
                                        shape.state_bytes, 5)
            changes.run_join(self.report, self.programs, f'{self.folder}/join-{path}', self.counts,
                             shape, path, bandwidth, self.size['joins'])

    def goodput(self):
        goodput.run(self.report, self.programs, f'{self.folder}/goodput', self.counts,
                    self.size['shape'], self.size['cycles'], self.size['cycle_s'])

    def torchrun(self):
        version = torchrun.version()
        if version is None:
            measure.note(f'{torchrun.PYTHON} has no torch: torchrun is left out')
            return
        version = '.'.join(version.split('.')[:2])
        torch_kills.run_tuned(self.report, f'{self.folder}/torchrun-tuned', free_port(),
                              self.size['shape'], version, self.ours_ms, 5, 3, 3)
        torch_kills.run_default(self.report, f'{self.folder}/torchrun-default', free_port,
                                self.size['shape'], version, self.ours_ms)


def keep_logs(folder, part, build):
    """Of a part that failed, for whoever wants to know why."""
    kept = f'{build}/recovery-failed-{part}'
    shutil.rmtree(kept, ignore_errors=True)
    os.makedirs(kept)
    for name in os.listdir(folder):
        if name.startswith(part):
            shutil.move(os.path.join(folder, name), kept)
    return kept


def run_parts(report, programs, folder, parts, size):
    """One that fails is a goal missed; what the others found counts all the same."""
    report.about['congestion'] = network.make_cubic()
    run = Run(report, programs, folder, size)
    for part in parts:
        try:
            getattr(run, part)()
        except (Failed, LookupError, OSError, ValueError) as why:
            kept = keep_logs(folder, part, os.path.dirname(folder))
            measure.note(f'{part} failed: {why}; the logs are in {kept}')
            report.add(f'{part}: failed', 1, 'failures', goal=0, why=f'{type(why).__name__}: {why}'[:500])
    if set(parts) != {'torchrun'}:
        run.counts.report(report)


def main(arguments):
    quick = '--quick' in arguments
    arguments = [a for a in arguments if a != '--quick']
    parts = arguments[1:] or [part for part in PARTS if not (quick and part == 'torchrun')]
    if not arguments or not set(parts) <= set(PARTS):
        sys.exit(__doc__)
    network.enter()
    build = os.path.abspath(arguments[0])
    programs = {'muster': f'{build}/../muster', 'paced': f'{build}/paced',
                'carry': f'{build}/carry'}
    return measure.run('recovery', build, programs,
                       functools.partial(run_parts, parts=parts, size=QUICK if quick else FULL))


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
