#!/usr/bin/env python3
"""bench_allreduce.py works: a short run, whose figures make sense.

usage: allreduce_test.py FOLDER
"""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f'{HERE}/../tests')

import tap  # pylint: disable=wrong-import-position

FOLDER = sys.argv[1]
LONG = 600  # Against hanging only.


def test_all_reduces_are_measured_beside_peers_and_limits():
    done = subprocess.run([sys.executable, f'{HERE}/bench_allreduce.py', '--quick', FOLDER],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONG, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    found = {result['name']: result for result in report['results']}
    for path, limit in (('shm', 'additions alone'), ('tcp', 'send and recv alone')):
        ours = found[f'{path}, 2 ranks, 1 MB: muster, mu_alloc']
        most = found[f'{path}, 2 ranks, 1 MB: limit: {limit}']
        assert ours['n'] == 2 and abs(ours['value'] - (1 << 20) / ours['us'] / 1e3) < 0.01 * \
            ours['value'], ours
        assert abs(ours['of_limit'] * most['value'] / ours['value'] - 1) < 0.01, (ours, most)
    assert found['shm, 2 ranks, 1 MB: what agreeing costs']['goal'] == 5, found
    compared = [result for name, result in found.items() if 'by the best peer' in name]
    peers = any(peer in name for name in found for peer in (': OpenMPI', ': Gloo'))
    assert peers == bool(compared), found
    if shutil.which('mpirun'):
        goal = [r for r in compared if r['name'].startswith('shm, 2 ranks, 1 MB: muster, mu_a')][0]
        assert goal['least'] == 3.0 and goal['met'] == (goal['value'] >= 3.0), goal


if __name__ == '__main__':
    tap.run(__name__)
