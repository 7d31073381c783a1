#!/usr/bin/env python3
"""A test that can't fail shows nothing. With a rule of the protocol taken out, workers that die in a step
leave others that stand still, crash or end with other bits; with samples that are dealt out anew after a loss
the audit finds which ones were lost and repeated. With all rules in their places there is nothing to find.

usage: control_test.py SWEEP MUTANT BROKEN
"""
import os
import subprocess
import sys
import tempfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTS)
sys.path.insert(0, os.path.join(TESTS, 'e2e'))
import audit  # pylint: disable=wrong-import-position
import tap  # pylint: disable=wrong-import-position

SWEEP, MUTANT, BROKEN = map(os.path.abspath, sys.argv[1:4])
WALK = audit.Walk(samples=50, batch=16, slices=8)  # sweep.h
STEPS = 8
STILL_MS = 5000  # A run takes a tenth of a second; what stands still shows after this.
POINTS = (17, 20, 21, 23, 24, 25, 27, 29, 36, 39, 42, 45, 50, 61, 70)


def run(program, victim, k, *rule):
    """rule: its name, and how long until it stands still. (it went well, the line about it, the audit)"""
    with tempfile.TemporaryDirectory(prefix='mu-') as folder:
        env = {**os.environ, 'MUSTER_AUDIT': folder, 'MUSTER_LOG': 'error'}
        done = subprocess.run([program, 'shm', 'stepping', str(victim), str(k), *rule], env=env, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
        told = (done.stdout.splitlines() or [''])[-1]
        return done.returncode == 0, told, audit.check(audit.read(folder), WALK, STEPS)


def test_with_all_rules_in_place_there_is_nothing_to_find():
    for program, rule in ((SWEEP, ()), (MUTANT, ('NONE',))):
        for victim in range(3):
            for k in POINTS[victim::5]:
                well, told, found = run(program, victim, k, *rule)
                assert well and 'died=1' in told, (victim, k, told)
                assert found.faults == [], (victim, k, found.faults)


def is_in_time(victim, k):
    """It is the rule that is missed, and not time: with all of them this machine makes it."""
    return run(MUTANT, victim, k, 'NONE', str(STILL_MS))[0]


def is_missed(rule):
    """Where a death falls is not for us to say exactly: at some point, at some time, it shows."""
    for points in (POINTS, *3 * [range(10, 100)]):
        for k in points:
            for victim in (1, 0, 2):
                well, told, _ = run(MUTANT, victim, k, rule, str(STILL_MS))
                if not well and ('stands still' not in told or is_in_time(victim, k)):
                    return
    raise AssertionError(f'without {rule} nothing goes wrong at any point')


def test_a_commit_without_every_ready_is_found():
    is_missed('READY_NEEDS_ALL')


def test_a_commit_of_what_not_all_hold_after_a_loss_is_found():
    is_missed('SETTLE_ALL_HOLD')


def test_gradients_of_another_step_are_found():
    is_missed('GRADIENT_OF_STEP')


def test_samples_that_are_dealt_out_anew_after_a_loss_are_found_by_the_audit_and_by_the_bits():
    well, told, _ = run(BROKEN, 1, 0)
    assert well, told  # As long as nobody is lost it does not show.
    well, told, found = run(BROKEN, 1, 20)
    assert not well and 'other weights' in told, told
    assert found.lost > 0 and found.repeated > 0, found.faults
    assert any('counted more than once' in fault for fault in found.faults), found.faults


if __name__ == '__main__':
    tap.run(__name__, only=sys.argv[4:])
