#!/usr/bin/env python3
"""Checks that scenarios can fail.

usage: scenarios_test.py SIM NAME...

The names must be all the files there are.
"""
import concurrent.futures
import os
import subprocess
import sys
import tempfile

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'scenarios')


def run(sim, lines, *options):
    """Runs the lines as a scenario. Returns the exit code, the output and the file after it."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'scenario.txt')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(''.join(line + '\n' for line in lines))
        done = subprocess.run([sim, '--script', path, *options], capture_output=True, text=True,
                              check=False)
        with open(path, encoding='utf-8') as file:
            return done.returncode, done.stdout, file.read().splitlines()


def catches(sim, lines, number):
    code, out, _ = run(sim, lines)
    return code == 1 and f'scenario.txt:{number}: ' in out


def load(name):
    """The lines of a scenario, and which of them says what happened in its middle."""
    with open(os.path.join(FOLDER, name + '.txt'), encoding='utf-8') as file:
        lines = file.read().splitlines()
    outcomes = [i for i, line in enumerate(lines) if line.startswith(' ')]
    return lines, outcomes[len(outcomes) // 2]


def wrong_line(sim, name):
    lines, at = load(name)
    return catches(sim, lines[:at] + [lines[at] + '!'] + lines[at + 1:], at + 1)


def missing_line(sim, name):
    lines, at = load(name)
    return catches(sim, lines[:at] + lines[at + 1:], at + 1)


def line_too_many(sim, name):
    lines, at = load(name)
    return catches(sim, lines[:at + 1] + lines[at:], at + 2)


def failing_command(sim, name):
    lines, _ = load(name)
    return catches(sim, lines + ['> expect head 127'], len(lines) + 1)


def unknown_command(sim, name):
    lines, _ = load(name)
    return catches(sim, lines + ['> hope for the best'], len(lines) + 1)


def rewrite_restores(sim, name):
    lines, _ = load(name)
    bare = [line for line in lines if not line.startswith(' ')]
    code, _, rewritten = run(sim, bare, '--rewrite')
    return code == 0 and rewritten == lines


def rewrite_keeps_failures(sim, name):
    lines = load(name)[0] + ['> expect head 127']
    code, _, kept = run(sim, lines, '--rewrite')
    return code == 1 and kept == lines


def main():
    sim, names = sys.argv[1], sys.argv[2:]
    there = sorted(f[:-4] for f in os.listdir(FOLDER) if f.endswith('.txt'))
    cases = [(f'{name}: a wrong line is caught', wrong_line, name) for name in names]
    cases += [('a missing line is caught', missing_line, names[0]),
              ('a line too many is caught', line_too_many, names[0]),
              ('a command that fails is caught', failing_command, names[0]),
              ('a command that there is not is caught', unknown_command, names[0]),
              ('--rewrite gives the same file again', rewrite_restores, names[0]),
              ('--rewrite does not take a failure as right', rewrite_keeps_failures, names[0])]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda case: case[1](sim, case[2]), cases))
    print(f'1..{len(cases) + 1}')
    print(f'{"ok" if there == sorted(names) else "not ok"} 1 - every scenario is run')
    for i, (case, ok) in enumerate(zip(cases, results), 2):
        print(f'{"ok" if ok else "not ok"} {i} - {case[0]}')


main()
