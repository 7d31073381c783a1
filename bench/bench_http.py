#!/usr/bin/env python3
"""Measures the orchestrator's HTTP side beside its agents: what many streams cost the renewals,
and how many requests are answered. README.md says what each figure means.

usage: bench_http.py [--quick] FOLDER

FOLDER is where bench was built; muster is beside it. --quick is for tests: it only shows that
everything works. Prints JSON.
"""
import os
import shutil
import subprocess
import sys
import tempfile

from control import measure
from control.process import Failed
from web import load


def main(arguments):
    quick = '--quick' in arguments
    arguments = [a for a in arguments if a != '--quick']
    if len(arguments) != 1:
        sys.exit(__doc__)
    build = os.path.abspath(arguments[0])
    programs = {'muster': f'{build}/../muster', 'swarm': f'{build}/swarm'}
    # In the build folder: /tmp may be memory, and the journal is to be on a disk.
    folder = tempfile.mkdtemp(prefix='http-', dir=build)
    machine = measure.machine(folder)
    report = measure.Report()
    try:
        (load.quick if quick else load.run)(report, programs, folder)
    except Failed as why:
        measure.note(f'failed: {why}; the logs are in {folder}')
        return 1
    shutil.rmtree(folder)
    version = subprocess.run([programs['muster'], '--version'], stdout=subprocess.PIPE, check=True,
                             text=True).stdout.split()[-1]
    machine['load_after'] = measure.load()
    report.print(version, machine, 'http')
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
