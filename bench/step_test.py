#!/usr/bin/env python3
"""bench_step.py works: short blocks, whose figures make sense.

usage: step_test.py FOLDER
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


def test_elastic_and_bare_blocks_are_measured_in_turn():
    done = subprocess.run([sys.executable, f'{HERE}/bench_step.py', '--quick', FOLDER],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONG, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report['bench'] == 'step'
    found = {result['name']: result for result in report['results']}
    for kind in ('shm, 2 workers, 10 MB, 8 slices', 'shm, 2 workers, 10 MB, 2 slices',
                 'tcp, 2 workers, 10 MB, 8 slices'):
        for loop in ('elastic', 'bare'):
            step = found[f'{kind}, 20 ms: a step, {loop}']
            assert step['n'] == 10 and step['min'] > 1000, step
        assert found[f'{kind}, 20 ms: cost of commits, by whole blocks']['n'] == 2, found
    cost = found['shm, 2 workers, 10 MB, 8 slices, 20 ms: cost of commits, by the median step']
    assert cost['goal'] == 3 and cost['met'] == (cost['value'] <= 3), cost


if __name__ == '__main__':
    tap.run(__name__)
