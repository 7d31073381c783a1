#!/usr/bin/env python3
"""bench_binding.py works: short blocks, whose figures make sense.

usage: binding_test.py FOLDER
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


def test_calls_from_c_and_from_python_are_measured_in_turn():
    done = subprocess.run([sys.executable, f'{HERE}/bench_binding.py', '--quick', FOLDER], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=LONG, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report['bench'] == 'binding'
    found = {result['name']: result for result in report['results']}
    for where in ('alone', 'shm, 2 workers'):
        for words in ('mu_allreduce()', '_muster.Run.make()', 'Run.allreduce()'):
            assert found[f'{where}, 4 KB: {words}']['n'] == 150, found
        more = found[f'{where}, 4 KB: Run.allreduce() takes more, by the median call']
        assert more['goal'] == 5 and more['met'] == (more['value'] <= 5), more


if __name__ == '__main__':
    tap.run(__name__)
