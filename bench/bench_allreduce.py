#!/usr/bin/env python3
"""Measures muster's all-reduce beside those of OpenMPI and Gloo, and beside what the machine can do.
README.md says what each figure means.

usage: bench_allreduce.py [--quick] FOLDER

FOLDER is where bench was built; muster is beside it. --quick is for tests: it only shows that
everything works. Prints JSON.
"""
import os
import sys

from allreduce import compare, network
from control import measure


def main(arguments):
    quick = '--quick' in arguments
    arguments = [a for a in arguments if a != '--quick']
    if len(arguments) != 1:
        sys.exit(__doc__)
    build = os.path.abspath(arguments[0])
    network.enter()
    return measure.run('allreduce', build, {'muster': f'{build}/../muster'},
                       compare.quick if quick else compare.run)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
