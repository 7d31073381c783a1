#!/usr/bin/env python3
"""Measures the orchestrator's HTTP side beside its agents: what many streams cost the renewals,
and how many requests are answered. README.md says what each figure means.

usage: bench_http.py [--quick] FOLDER

FOLDER is where bench was built; muster is beside it. --quick is for tests: it only shows that
everything works. Prints JSON.
"""
import os
import sys

from control import measure
from web import load


def main(arguments):
    quick = '--quick' in arguments
    arguments = [a for a in arguments if a != '--quick']
    if len(arguments) != 1:
        sys.exit(__doc__)
    build = os.path.abspath(arguments[0])
    programs = {'muster': f'{build}/../muster', 'swarm': f'{build}/swarm'}
    return measure.run('http', build, programs, load.quick if quick else load.run)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
