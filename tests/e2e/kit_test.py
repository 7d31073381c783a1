#!/usr/bin/env python3
"""The kit of these tests: whatever becomes of a test, nothing that it started is left.

usage: kit_test.py MUSTER [CASE…]
"""
import json
import os
import signal
import subprocess
import sys
import tempfile

import kit

# A test of one case: it starts nodes, says where, and then does as it is told.
INNER = '''
import json, sys, time
sys.path.insert(0, {here!r})
import kit

def test_inner():
    with kit.World() as world:
        job = world.orchestrator(*kit.SERVE).job()
        job.node('a', script='stubborn.py')
        job.settled('a')
        with open({note!r}, 'w') as file:
            json.dump([world.marker, world.dir], file)
        {then}

kit.run(__name__)
'''


def run_inner(then, number=None):
    """(exit code, stdout, stderr, the marker, the folder) of such a test."""
    with tempfile.TemporaryDirectory(prefix='mu-') as folder:
        note, script = os.path.join(folder, 'note'), os.path.join(folder, 'inner.py')
        here = os.path.dirname(os.path.abspath(__file__))
        with open(script, 'w', encoding='utf-8') as file:
            file.write(INNER.format(here=here, note=note, then=then))
        with subprocess.Popen([sys.executable, script, kit.MUSTER], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as inner:
            if number is not None:
                kit.wait_until(lambda: os.path.exists(note) and os.path.getsize(note),
                               'the nodes ran')
                inner.send_signal(number)
            out, err = inner.communicate(timeout=kit.LONG_S)
        with open(note, encoding='utf-8') as file:
            return (inner.returncode, out, err, *json.load(file))


def check_nothing_left(marker, folder):
    left = kit.with_variable(kit.MARKER, marker)
    assert left == [], list(map(kit.tell, left))
    assert not os.path.exists(folder)


def test_nothing_is_left_of_a_case_that_goes_well():
    code, out, err, *rest = run_inner('pass')
    said, took = out.split('# ')
    assert (code, said) == (0, '1..1\nok 1 - inner\n') and took.startswith('inner took '), (out, err)
    check_nothing_left(*rest)


def test_nothing_is_left_of_a_case_that_fails_and_the_logs_are_shown():
    code, out, err, *rest = run_inner('assert False, "as it should"')
    assert code == 1 and 'not ok 1 - inner' in out, (out, err)
    assert 'as it should' in err and '---- serve' in err and "node 'a' joined" in err, err
    check_nothing_left(*rest)


def test_a_process_that_is_left_behind_is_a_failure_and_is_killed():
    strange = 'import subprocess; subprocess.Popen(["sleep", "99"], env=world.env()); kit.LEFT_S = 1'
    code, out, err, *rest = run_inner(strange)
    assert code == 1 and 'not ok 1 - inner' in out and 'left behind: ' in err, (out, err)
    check_nothing_left(*rest)


def test_nothing_is_left_of_a_test_that_is_told_to_end():
    for number in (signal.SIGTERM, signal.SIGINT):
        code, _, err, *rest = run_inner('time.sleep(99)', number)
        assert code == 128 + number, err
        check_nothing_left(*rest)


# Two cases at a time, of which the first ends only when the test has heard of the second.
ORDER = '''
import os, sys
sys.path.insert(0, {here!r})
import kit

def test_first():
    kit.wait_until(lambda: os.path.exists({gate!r}), 'the test had heard of the second')

def test_second():
    assert False, 'as it should'

kit.run(__name__, jobs=2)
'''


def test_a_failure_is_told_when_it_happens_whatever_still_runs():
    with tempfile.TemporaryDirectory(prefix='mu-') as folder:
        gate, script = os.path.join(folder, 'gate'), os.path.join(folder, 'order.py')
        with open(script, 'w', encoding='utf-8') as file:
            file.write(ORDER.format(here=os.path.dirname(os.path.abspath(__file__)), gate=gate))
        with subprocess.Popen([sys.executable, script, kit.MUSTER], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as inner:
            said = [inner.stdout.readline() for _ in range(2)]
            with open(gate, 'w', encoding='ascii'):
                pass
            said += inner.stdout.readlines()
    told = [line for line in said if not line.startswith('#')]
    assert told == ['1..2\n', 'not ok 1 - second\n', 'ok 2 - first\n'], said
    assert inner.returncode == 1


if __name__ == '__main__':
    kit.run(__name__, jobs=4)
