#!/usr/bin/env python3
"""bench_control.py works: a short run with few nodes, whose figures make sense.

usage: control_test.py FOLDER
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f'{HERE}/../tests')

import tap  # pylint: disable=wrong-import-position

FOLDER = sys.argv[1]
LONG = 600  # Against hanging only.


def quick(part):
    done = subprocess.run([sys.executable, f'{HERE}/bench_control.py', '--quick', FOLDER, part],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONG, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report['bench'] == 'control'
    return {result['name']: result for result in report['results']}


def test_losses_of_workers_and_agents_are_measured():
    found = quick('failures')
    killed = found['worker killed: generation at the survivors']
    again = found['worker killed: survivors run again']
    assert killed['n'] == 2 and 0 < killed['min'] <= again['min'], found
    assert found['agent killed: survivors run again']['value'] > 0, found
    assert found['node killed: survivors run again']['value'] > 0, found
    assert found['agent killed: its own worker is gone']['value'] > 0, found


def test_a_swarm_is_admitted_held_and_answered():
    found = quick('scale')
    admitted = found['100 nodes, 4 jobs: all in active generations']
    assert 0 < found['100 nodes, 4 jobs: all welcomed']['value'] <= admitted['value'], found
    assert admitted['closed'] == 0, found
    held = found['100 nodes, 4 jobs held: renewal, p99']
    assert held['renewals'] >= 100 and held['value'] > 0, found
    assert found['100 nodes, 4 jobs saturated, 4 in flight each: renewals']['min'] > 100, found


if __name__ == '__main__':
    tap.run(__name__)
