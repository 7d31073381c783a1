#!/usr/bin/env python3
"""What `make test` tells, with small programs in place of tests and of Meson."""
import json
import os
import signal
import subprocess
import sys
import tempfile
import time

import tap

RUN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'run.py')


class Tree:
    """A build folder whose tests are shell scripts, (name, suite, script); without one: a program that is not there."""

    def __init__(self, *tests, alone=()):
        self.folder = tempfile.TemporaryDirectory(prefix='mu-')
        self.build = os.path.join(self.folder.name, 'build')
        os.mkdir(self.build)
        told = [{'name': name, 'suite': [f'muster:{suite}'], 'cmd': ['sh', '-c', script] if script else ['/nosuch'], 'env': {}, 'timeout': 60,
                 'is_parallel': name not in alone} for name, suite, script in tests]
        meson = os.path.join(self.folder.name, 'meson')
        with open(meson, 'w', encoding='utf-8') as file:
            file.write(f"#!/bin/sh\ncat <<'END'\n{json.dumps(told)}\nEND\n")
        os.chmod(meson, 0o755)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.folder.cleanup()

    def start(self, mode, *names, **env):
        env = {'PATH': self.folder.name + os.pathsep + os.environ['PATH'], 'JOBS': '1', **env}
        words = [sys.executable, RUN, mode, self.build, *(['--', *names] if names else [])]
        return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=env)

    def run(self, mode, *names, **env):
        """(exit code, lines)"""
        one = self.start(mode, *names, **env)
        out = one.communicate(timeout=60)[0]
        return one.returncode, out.splitlines()

    def path(self, name):
        return os.path.join(self.folder.name, name)


def order(lines):
    return [line.split()[2] for line in lines if line.split('/')[0].strip().isdigit()]


def test_basic_suites_come_first_and_cases_are_counted():
    with Tree(('e', 'e2e', 'echo "1..2\nok 1 - x\nok 2 - y"'), ('u', 'unit', 'true'), ('s', 'sim', 'true')) as tree:
        code, lines = tree.run('test')
        assert code == 0 and order(lines) == ['u', 's', 'e'], lines
        assert lines[-1] == '4 passed, 0 failed, 0 skipped', lines


def test_those_that_took_long_come_first_in_their_suite_the_next_time():
    with Tree(('short', 'unit', 'true'), ('long', 'unit', 'sleep 0.3')) as tree:
        assert order(tree.run('test')[1]) == ['short', 'long']
        assert order(tree.run('test')[1]) == ['long', 'short']


def test_a_failure_is_told_when_it_happens_and_how_to_run_just_that():
    script = 'echo "1..2\nok 1 - x\nnot ok 2 - y"; seq 500 >&2; exit 1'
    with Tree(('bad', 'unit', script), ('good', 'e2e', 'true')) as tree:
        code, lines = tree.run('test')
        assert code == 1 and order(lines) == ['bad', 'good'], lines
        at = next(i for i, line in enumerate(lines) if 'not ok: y' in line)
        assert at < next(i for i, line in enumerate(lines) if ' good ' in line)
        told = [line for line in lines if line.startswith('        | ')]
        assert 10 < len(told) < 100 and told[-1].endswith('| 500'), len(told)
        assert 'FAILED bad: y' in lines and '  run just that: make test ONLY=bad CASE=y' in lines, lines
        assert lines[-1] == '2 passed, 1 failed, 0 skipped'


def test_why_cases_were_skipped_is_told_with_their_number():
    with Tree(('a', 'unit', 'echo "1..2\nok 1 - x # SKIP no tool\nok 2 - y # SKIP no tool"'), ('b', 'unit', 'true')) as tree:
        code, lines = tree.run('test')
        assert code == 0 and 'skipped 2: no tool' in lines and lines[-1] == '1 passed, 0 failed, 2 skipped', lines


def test_a_program_that_is_not_there_is_a_failure():
    with Tree(('a', 'unit', 'true'), ('b', 'unit', None)) as tree:
        code, lines = tree.run('test')
        assert code == 1 and lines[-1] == '1 passed, 1 failed, 0 skipped', lines
        assert any("it can't be started" in line for line in lines), lines


def test_nothing_passed_is_a_failure():
    with Tree(('a', 'unit', 'exit 77')) as tree:
        assert tree.run('test')[0] == 1


def test_only_what_is_named_runs_and_what_is_not_there_is_said():
    with Tree(('a', 'unit', 'true'), ('b', 'unit', 'true'), ('c', 'sim', 'true')) as tree:
        assert order(tree.run('test', 'b')[1]) == ['b']
        assert sorted(order(tree.run('test', 'unit/')[1])) == ['a', 'b']
        assert order(tree.run('test', 'c', TIMES='3')[1]) == ['c', 'c', 'c']
        code, lines = tree.run('test', 'nosuch')
        assert code == 1 and 'there is no program nosuch' in lines[0], lines


def test_one_that_must_be_alone_is():
    script = 'test ! -e {0} && touch {0} && sleep 0.2 && rm {0}'
    with tempfile.TemporaryDirectory() as folder:
        busy = script.format(os.path.join(folder, 'busy'))
        with Tree(('a', 'unit', 'sleep 0.2'), ('b', 'unit', busy), ('c', 'unit', busy), alone=('b', 'c')) as tree:
            assert tree.run('test', JOBS='3')[0] == 0


def test_full_goes_on_where_it_was_interrupted_and_begins_anew_when_told():
    with tempfile.TemporaryDirectory() as folder:
        mark = os.path.join(folder, 'mark')
        with Tree(('a', 'unit', 'true'), ('b', 'e2e', f'test -e {mark} || sleep 60')) as tree:
            one = tree.start('full')
            assert any(' a ' in line for line in one.stdout)
            one.send_signal(signal.SIGINT)
            assert 'goes on from here' in one.communicate(timeout=60)[0] and one.returncode == 130
            with open(mark, 'w', encoding='ascii'):
                pass
            code, lines = tree.run('full')
            assert code == 0 and order(lines) == ['b'] and lines[-1] == '2 passed, 0 failed, 0 skipped', lines
            assert sorted(order(tree.run('full')[1])) == ['a', 'b']  # It was over.


def test_what_is_interrupted_ends_its_programs():
    with Tree(('a', 'unit', 'echo $$ > pid; sleep 60')) as tree:
        one = tree.start('test')
        path = os.path.join(tree.build, 'pid')
        while not (os.path.exists(path) and os.path.getsize(path)):
            time.sleep(0.01)
        with open(path, encoding='ascii') as file:
            pid = int(file.read())
        one.send_signal(signal.SIGTERM)
        one.communicate(timeout=60)
        assert one.returncode == 143 and not os.path.exists(f'/proc/{pid}')


if __name__ == '__main__':
    tap.run(__name__, jobs=4)
