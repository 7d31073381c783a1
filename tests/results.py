"""What a test program said of its cases, in TAP; one that says nothing of cases is itself one case.

A case that was planned but never told (its program crashed) is failed, and so is every program that ended badly
without naming a failed case.
"""
import re

CASE = re.compile(r'^(not )?ok\b\s*\d*(?:\s+-)?\s*(.*)$')
PLAN = re.compile(r'^1\.\.(\d+)\s*(?:#\s*skip\s*(.*))?$', re.I)
TOOK = re.compile(r'^# .* took [\d.]+ s$')
DIRECTIVE = re.compile(r'\s*#\s*(?:skip|todo)\b\s*(.*)', re.I)


class Results:
    """passed: how many; skipped: why, of each; failed: (name, why) of each."""

    def __init__(self, passed=0, skipped=(), failed=()):
        self.passed = passed
        self.skipped = list(skipped)
        self.failed = [tuple(one) for one in failed]

    @property
    def cases_n(self):
        return self.passed + len(self.skipped) + len(self.failed)

    def add(self, other):
        self.passed += other.passed
        self.skipped += other.skipped
        self.failed += other.failed

    def line(self):
        return f'{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped'


def read_tap(out):
    """The cases of a TAP stream, or None if it is none: it has no plan."""
    found = Results()
    planned = None
    why = None  # Lines with '#' after a failed case say why.
    for line in out.splitlines():
        plan, case = PLAN.match(line), CASE.match(line)
        if plan:
            planned = (planned or 0) + int(plan.group(1))
            if plan.group(1) == '0' and plan.group(2) is not None:
                found.skipped.append(plan.group(2))
                planned += 1
        elif case:
            why = None
            directive = DIRECTIVE.search(case.group(2))
            if directive:
                found.skipped.append(directive.group(1))
            elif case.group(1):
                why = []
                found.failed.append((case.group(2) or 'a case without a name', why))
            else:
                found.passed += 1
        elif why is not None and line.startswith('#') and not TOOK.match(line):
            why.append(line[1:].strip())
    if planned is None:
        return None
    found.failed = [(name, '; '.join(lines)) for name, lines in found.failed]
    never_n = planned - found.cases_n
    found.failed += [('', f'{never_n} of {planned} cases never ran')] * never_n
    return found


def read(out, code, end=''):
    """Of a program that said `out` and ended with that exit code, negative for a signal; `end` says otherwise
    why it ended badly, as after a time-out."""
    found = read_tap(out) or Results()
    if code == 77 and not end:
        found.skipped += [] if found.cases_n else ['the program said so']
    elif code != 0 or end:
        if not found.failed:
            found.failed.append(('', end or f'the program ended with {f"signal {-code}" if code < 0 else code}'))
    elif found.cases_n == 0:
        found.passed = 1
    return found
