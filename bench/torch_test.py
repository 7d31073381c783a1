#!/usr/bin/env python3
"""bench_torch.py works: a few steps and one kill, whose figures make sense.

usage: torch_test.py FOLDER
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f'{HERE}/../tests')
sys.path.insert(0, HERE)

import tap  # pylint: disable=wrong-import-position
from control import torchrun  # pylint: disable=wrong-import-position

FOLDER = sys.argv[1]
LONG = 1100  # Against hanging only.


def test_steps_and_a_kill_are_measured():
    if torchrun.version() is None:
        tap.skip(f'{torchrun.PYTHON} has no torch (package python3-torch)')
    done = subprocess.run([sys.executable, f'{HERE}/bench_torch.py', '--quick', FOLDER],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONG, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report['bench'] == 'torch'
    found = {result['name']: result for result in report['results']}
    for model in ('CNN of the example, batch 256', 'MLP of 25 M parameters, batch 64'):
        for who in ('muster.torch, 2 slices', 'muster.torch, 8 slices', 'DDP on gloo', 'DDP on muster'):
            step = found[f'{model}: a step, {who}']
            assert step['n'] in (2, 3) and step['min'] > 1, step
        ratio = found[f'{model}: DDP on gloo, by muster.torch, 2 slices']
        assert ratio['least'] == 1.0 and ratio['met'] == (ratio['value'] >= 1.0), ratio
    assert found['worker killed: muster.torch: next step committed']['n'] == 1


if __name__ == '__main__':
    tap.run(__name__)
