#!/usr/bin/env python3
"""bench_recovery.py works: a short run with a small model, whose figures make sense.

usage: recovery_test.py FOLDER
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f'{HERE}/../tests')

import tap  # pylint: disable=wrong-import-position

FOLDER = sys.argv[1]
LONG = 900  # Against hanging only.


def quick(*parts):
    done = subprocess.run([sys.executable, f'{HERE}/bench_recovery.py', '--quick', FOLDER, *parts],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONG, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report['bench'] == 'recovery'
    found = {result['name']: result for result in report['results']}
    assert not any('failed' in name for name in found), done.stderr
    for what in ('steps lost', 'samples lost', 'samples repeated', 'anything else that is wrong'):
        assert found[f'audit: {what}']['value'] == 0, found[f'audit: {what}']
    assert found['audit: steps committed']['value'] > 20, found
    return found


def test_kills_of_workers_and_nodes_are_measured_and_nothing_is_lost():
    found = quick('kills')
    for what in ('worker killed', 'node killed'):
        whole = found[f'{what}: next step committed']
        beyond = found[f'{what}: next step committed, less slices for the lost one']
        assert whole['n'] == 2 and 0 < beyond['min'] <= whole['max'], found
        assert found[f'{what}: next step committed, worst']['value'] == whole['max'], found
        assert beyond['goal'] == 50 and beyond['met'] == (beyond['value'] <= 50), beyond
        slices = found[f'{what}: … of that, slices computed for the lost one']['slices']
        assert all(0 <= n <= 8 for n in slices), slices
    assert found['node killed, its keeper too: next step committed']['value'] > 0, found


def test_resizes_and_joins_are_measured_by_the_trainers_own_clock():
    found = quick('resize', 'join')
    assert found['resize 3 to 2: pause of the others']['n'] == 2, found
    assert found['resize 3 to 2: pause of the others']['goal'] == 5, found
    for path in ('shm', 'tcp'):
        name = f'join with 4 MB of state, {path}'
        pause = found[f'{name}: pause of the others']
        least = found[f'{name}: a step of 2 workers']['value']
        assert pause['value'] > 0 and pause['goal'] > least > 0, found


def test_goodput_is_what_was_done_by_what_could_have_been():
    found = quick('goodput')
    result = found['goodput: a node killed every 2 s and back 1 s later']
    assert result['value'] > 0 and result['least'] == 95, result
    assert abs(result['value'] * result['possible'] / result['steps'] - 100) < 1, result


if __name__ == '__main__':
    tap.run(__name__)
