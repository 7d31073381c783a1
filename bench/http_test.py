#!/usr/bin/env python3
"""bench_http.py works: a short run with few nodes, whose figures make sense.

usage: http_test.py FOLDER
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


def test_renewals_with_and_without_streams_and_requests_are_measured():
    done = subprocess.run([sys.executable, f'{HERE}/bench_http.py', '--quick', FOLDER],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LONG, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report['bench'] == 'http'
    found = {result['name']: result for result in report['results']}
    for kind in ('with', 'without'):
        renewal = found[f'50 nodes, {kind} streams: renewal, p99']
        assert renewal['value'] > 0 and renewal['renewals'] >= 25, found
    assert found['50 nodes: events read']['value'] > 0, found
    for what in ('GET /v1/jobs', 'compare-and-set'):
        assert found[f'50 nodes: {what}, 8 connections']['value'] > 0, found


if __name__ == '__main__':
    tap.run(__name__)
