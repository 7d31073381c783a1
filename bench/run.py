#!/usr/bin/env python3
"""Runs the benchmarks of a build; keeps each one's JSON and prints one table.

usage: run.py FOLDER RESULTS [NAME...]

A benchmark is a program bench_NAME in FOLDER, or a script bench_NAME.py beside this one, which is
given FOLDER.
"""
import json
import os
import subprocess
import sys


def show(value):
    return f'{value:,.0f}' if abs(value) >= 1000 else f'{value:.4g}'


def spread(result):
    """What else is known of it: from where to where it went, and what it should be."""
    text = f"{show(result['p10'])} – {show(result['p90'])}" if result.get('n', 0) > 2 and \
        'p10' in result else ''
    for key, sign in (('goal', '≤'), ('least', '≥')):
        if key in result:
            text += f"{', ' if text else ''}goal {sign} {show(result[key])}: " \
                    f"{'met' if result['met'] else 'MISSED'}"
    return f' ({text})' if text else ''


def run(command, out):
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, text=True)
    if done.returncode != 0:
        raise RuntimeError(f'{command[0]} ended with status {done.returncode}')
    report = json.loads(done.stdout)
    with open(out, 'w', encoding='utf-8') as file:
        file.write(done.stdout)
    for result in report['results']:
        print(f"{report['bench']:<10} {result['name']:<80} {show(result['value']):>16} "
              f"{result['unit']}{spread(result)}", flush=True)


def find(folder):
    """Name and command of every benchmark, in order of their names."""
    here = os.path.dirname(os.path.abspath(__file__))
    found = {p[len('bench_'):]: [f'{folder}/{p}'] for p in os.listdir(folder)
             if p.startswith('bench_') and os.path.isfile(f'{folder}/{p}')
             and os.access(f'{folder}/{p}', os.X_OK)}
    found.update({p[len('bench_'):-len('.py')]: [f'{here}/{p}', folder] for p in os.listdir(here)
                  if p.startswith('bench_') and p.endswith('.py')})
    return sorted(found.items())


def main(folder, results, *names):
    os.makedirs(results, exist_ok=True)
    failed = 0
    for name, command in find(folder):
        if names and name not in names:
            continue
        try:
            run(command, f'{results}/{name}.json')
        except (OSError, RuntimeError, ValueError, KeyError) as error:
            print(f'bench: {name} failed: {error}', file=sys.stderr)
            failed = 1
    return failed


if __name__ == '__main__':
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
