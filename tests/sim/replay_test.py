#!/usr/bin/env python3
"""Checks that a seed is a run: the same each time, whatever ran before it.

usage: replay_test.py SIM SIM-MUTANT
"""
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # pylint: disable=wrong-import-position

SIM, MUTANT = sys.argv[1:3]
SEEDS_N = 60


def out(*words, code=0):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == code, f'{words}: exit status {done.returncode}\n{done.stdout}'
    return done.stdout


def counts(first, seeds_n):
    text = out(SIM, '--seeds', str(seeds_n), '--first', str(first))
    found = re.search(r'(\d+) events, (\d+) commits, (\d+) generations', text)
    return [int(n) for n in found.groups()]


def test_the_same_seed_gives_the_same_trace():
    for seed in range(1, 11):
        assert out(SIM, '--trace', str(seed)) == out(SIM, '--trace', str(seed)), f'seed {seed}'


def test_a_seed_does_not_depend_on_those_before_it():
    alone = [counts(seed, 1) for seed in range(1, SEEDS_N + 1)]
    assert counts(1, SEEDS_N) == [sum(column) for column in zip(*alone)]


def test_a_failing_seed_is_named_with_the_command_that_replays_it():
    text = out(MUTANT, '--mutation', 'READY_NEEDS_ALL', '--seeds', '50', '--failures', '1', code=1)
    why, command = re.search(r'^seed \d+ failed: (.*)\n +replay: (.*)$', text, re.M).groups()
    again = out(*command.split(), code=1)
    assert f'VIOLATION     {why}' in again, f'{command} tells another story'


if __name__ == '__main__':
    tap.run(__name__)
