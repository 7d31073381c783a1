#!/usr/bin/env python3
"""Runs the benchmarks of a build; keeps each one's JSON and prints one table.

usage: run.py FOLDER RESULTS [NAME...]
"""
import json
import os
import subprocess
import sys


def show(value):
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.4g}'


def run(program, out):
    done = subprocess.run([program], stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode != 0:
        raise RuntimeError(f'{program} ended with status {done.returncode}')
    report = json.loads(done.stdout)
    with open(out, 'w', encoding='utf-8') as file:
        file.write(done.stdout)
    for result in report['results']:
        print(f"{report['bench']:<10} {result['name']:<44} {show(result['value']):>16} "
              f"{result['unit']}", flush=True)


def main(folder, results, *names):
    os.makedirs(results, exist_ok=True)
    programs = sorted(p for p in os.listdir(folder)
                      if p.startswith('bench_') and os.access(f'{folder}/{p}', os.X_OK)
                      and os.path.isfile(f'{folder}/{p}'))
    failed = 0
    for program in programs:
        name = program[len('bench_'):]
        if names and name not in names:
            continue
        try:
            run(f'{folder}/{program}', f'{results}/{name}.json')
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            print(f'bench: {name} failed: {error}', file=sys.stderr)
            failed = 1
    return failed


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
