#!/usr/bin/env python3
"""Counts test cases over the logs of one or more `meson test` runs.

usage: summary.py TESTLOG.json...

A test that speaks TAP counts once per case; any other program counts as one case. A case that
was planned but never told (its program crashed) is failed, and so is every program that ended
badly without naming a failed case. Failures are listed, then comes one last line:

    N passed, N failed, N skipped

The exit status is 0 only if nothing failed and something passed.
"""
import json
import re
import sys

CASE = re.compile(r'^(not )?ok\b\s*\d*(?:\s+-)?\s*(.*)$')
PLAN = re.compile(r'^1\.\.(\d+)\s*(#\s*skip.*)?$', re.I)
DIRECTIVE = re.compile(r'#\s*(skip|todo)\b', re.I)


class Count:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.failures = []

    def fail(self, name, why, n=1):
        self.failed += n
        self.failures.append(f'FAILED {name}: {why}')


def count_tap(count, name, stdout):
    """Counts the cases of one TAP stream. Returns how many were told, and how many failed."""
    told = failed = 0
    planned = None
    after_failure = False
    for line in stdout.splitlines():
        plan = PLAN.match(line)
        if plan:
            planned = (planned or 0) + int(plan.group(1))
            if plan.group(1) == '0' and plan.group(2):
                count.skipped += 1
                told += 1
                planned += 1
            continue
        case = CASE.match(line)
        if not case:
            if after_failure and line.startswith('#'):  # cmocka says here why it failed.
                count.failures.append('  ' + line[1:].strip())
            continue
        told += 1
        after_failure = False
        directive = DIRECTIVE.search(case.group(2))
        if directive:
            count.skipped += 1
        elif case.group(1):
            count.fail(name, case.group(2) or 'a case without a name')
            failed += 1
            after_failure = True
        else:
            count.passed += 1
    if planned is not None and told < planned:
        count.fail(name, f'{planned - told} of {planned} cases never ran', planned - told)
        failed += planned - told
    return told, failed


def count_test(count, test):
    name = test['name']
    result = test['result']
    stdout = test.get('stdout') or ''
    told = failed = 0
    # A line such as "ok 1 - …" or a plan is TAP; anything else is a program of one case.
    if any(PLAN.match(line) for line in stdout.splitlines()):
        told, failed = count_tap(count, name, stdout)
    if result in ('OK', 'EXPECTEDFAIL'):
        if told == 0:
            count.passed += 1
    elif result == 'SKIP':
        if told == 0:
            count.skipped += 1
    elif failed == 0:
        code = test.get('returncode')
        count.fail(name, f'the program ended badly ({result}, status {code})')


def main(paths):
    count = Count()
    for path in paths:
        try:
            with open(path, encoding='utf-8') as log:
                for line in log:
                    if line.strip():
                        count_test(count, json.loads(line))
        except (OSError, ValueError, KeyError) as error:
            count.fail(path, f'cannot be read: {error}')
    for line in count.failures:
        print(line)
    print(f'{count.passed} passed, {count.failed} failed, {count.skipped} skipped')
    return 0 if count.failed == 0 and count.passed > 0 else 1


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
