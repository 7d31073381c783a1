#!/usr/bin/env python3
"""bench_checkpoint.py works: a small state, whose figures make sense.

usage: checkpoint_test.py FOLDER
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


def test_saves_and_loads_are_measured_beside_memcpy_and_dd():
    done = subprocess.run([sys.executable, f'{HERE}/bench_checkpoint.py', '--quick', FOLDER],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONG, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report['bench'] == 'checkpoint'
    found = {result['name']: result for result in report['results']}
    for who in ('1 worker', '2 workers'):
        for what in ('training stands still', 'one memcpy of all of it', 'written'):
            one = found[f'0.01 GB, {who}: {what}']
            assert one['n'] == 4 and one['min'] > 0, one
        ratio = found[f'0.01 GB, {who}: stands still, by one memcpy']
        assert ratio['goal'] == 1 and ratio['met'] == (ratio['value'] <= 1), ratio
    for what in ('written by 1 worker, by dd', 'restored, by dd'):
        ratio = found[f'0.01 GB: {what}']
        assert ratio['n'] == 2 and ratio['least'] == 0.7 and ratio['met'] == (ratio['value'] >= 0.7), ratio
    cost = found['1 MB, 2 workers, 10 steps of 10 ms: cost of a save']
    assert cost['n'] == 2 and cost['goal'] == 3.5, cost
    assert found['1 MB, 2 workers, 10 steps of 10 ms: a step, without a save in them']['min'] > 5


if __name__ == '__main__':
    tap.run(__name__)
