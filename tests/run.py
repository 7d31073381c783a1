#!/usr/bin/env python3
"""Runs the tests of build folders: what is quick and basic first, a failure told when it happens.

usage: run.py quick|test|full BUILD… [-- NAME…]

Meson knows the tests; this runs them, three at a time on two cores (JOBS=N: N), as many of them wait. NAME…: only
these programs, or with SUITE/ those of a suite; CASE=NAME in the environment: only that case of them; TIMES=N: so
often each. What a program said is in BUILD/test-logs. At the end it tells what failed and how to run just that; the
last line counts cases:

    N passed, N failed, N skipped

The exit status is 0 only if nothing failed and something passed. `full` that was interrupted goes on where it
was, as long as no file has changed; FRESH=1 begins anew.
"""
import collections
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import results

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# By the suite that Meson names, in this order; the first that fits counts.
STAGES = ('tidy', 'unit', 'sim', 'fuzz', 'cli', 'ckpt', 'comm', 'run', 'e2e', 'python', 'frameworks', 'bench')
QUICK_STAGES = ('tidy', 'unit', 'sim', 'fuzz')
QUICK = ('cli', 'e2e_quick', 'python_core_module', 'python_core_run')  # … and these: one real job, Python's core
SLOW = ('mutations',)  # left out of `quick`
ONLY_FULL = ('bench',)
ABOUT = {'quick': '1 minute', 'test': '8 minutes', 'full': '2 hours'}  # on two cores, the first time
SWEPT = ('unit', 'ckpt')  # whole with ASan, too: no memory, a disk that fails
SANITIZERS = 'halt_on_error=1:abort_on_error=1:print_summary=1'
TOLD_LINES = 60  # of what a failed program said
END_S = 10  # from SIGTERM to SIGKILL


class Test:
    def __init__(self, build, told, turn=0):
        self.build = build
        self.name = told['name']
        self.key = f'{os.path.basename(build)}/{self.name}'
        self.title = self.key.removeprefix('build/') + (f' #{turn}' if turn else '')
        self.words = told['cmd']
        self.env = told['env']
        self.bound_s = told['timeout']
        self.alone = not told['is_parallel']
        self.suites = [name.rpartition(':')[2] for name in told['suite']]
        self.stage = next((stage for stage in STAGES if stage in self.suites), None)
        if self.stage is None:
            sys.exit(f'tests: {self.key} is in suite {self.suites}; tests/run.py knows {", ".join(STAGES)}')
        self.log = os.path.join(build, 'test-logs', self.name + (f'.{turn}' if turn else ''))
        self.process = None

    def run(self):
        """Its results and how long it took; what it said is in two files."""
        began = time.monotonic()
        late = ''
        shutil.rmtree(self.log, ignore_errors=True)
        # Memory that nobody has written is never 0 by luck.
        env = {'MALLOC_PERTURB_': str(random.randrange(1, 256)), 'ASAN_OPTIONS': SANITIZERS,
               'UBSAN_OPTIONS': SANITIZERS + ':print_stacktrace=1', **os.environ, **self.env,
               'MUSTER_TEST_LOGS': self.log}
        if self.is_sample():
            env.pop('MUSTER_TEST_FULL', None)
        with open(self.log + '.tap', 'wb') as out, open(self.log + '.log', 'wb') as err:
            try:
                self.process = subprocess.Popen(self.words, cwd=self.build, env=env, stdin=subprocess.DEVNULL,
                                                stdout=out, stderr=err, start_new_session=True)
                self.process.wait(self.bound_s)
            except OSError as error:
                return results.Results(failed=[('', f"it can't be started: {error}")]), 0.0
            except subprocess.TimeoutExpired:
                late = f'it was not over after {self.bound_s} s'
                self.end()
        with open(self.log + '.tap', encoding='utf-8', errors='replace') as out:
            found = results.read(out.read(), self.process.returncode, late)
        return found, time.monotonic() - began

    def is_sample(self):
        """A sanitizer is slow: of sweeps over schedules, which the plain build runs whole, it gets a sample."""
        folder = os.path.basename(self.build)
        return folder == 'build-tsan' or (folder == 'build-asan' and self.stage not in SWEPT)

    def end(self):
        """It is asked first: it may have processes of its own to end."""
        for number in (signal.SIGTERM, signal.SIGKILL) if self.process is not None else ():
            try:
                os.killpg(self.process.pid, number)
                self.process.wait(END_S)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                pass


# ---- which, and in what order ----

def load(build, times_n):
    told = subprocess.run(['meson', 'introspect', '--tests', build], stdout=subprocess.PIPE, check=True).stdout
    turns = range(1, times_n + 1) if times_n > 1 else (0,)
    return [Test(os.path.abspath(build), one, turn) for turn in turns for one in json.loads(told)]


def wanted(test, mode, names):
    if names:
        return test.name in names or test.stage + '/' in names
    if mode == 'quick':
        return test.name in QUICK or (test.stage in QUICK_STAGES and test.name not in SLOW)
    if mode == 'test':
        return test.stage not in ONLY_FULL and test.name != 'e2e_quick'
    if os.path.basename(test.build) == 'build-asan':
        return test.stage not in ('tidy', 'bench')
    if os.path.basename(test.build) == 'build-tsan':
        return 'comm' in test.suites or 'threads' in test.suites
    return True


def in_order(tests, times):
    """Basic ones first; of one stage those that take long, so that no core waits at its end."""
    return sorted(tests, key=lambda test: (STAGES.index(test.stage), -times.get(test.key, 0)))  # stable: by turns


# ---- what is remembered ----

def read_json(path):
    try:
        with open(path, encoding='utf-8') as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def write_json(path, value):
    with open(path + '.new', 'w', encoding='utf-8') as file:
        json.dump(value, file)
    os.rename(path + '.new', path)


def tree():
    """Changes with every file of the project."""
    def git(*words):
        return subprocess.run(['git', '-C', ROOT, *words], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              check=False).stdout
    found = hashlib.sha256(git('rev-parse', 'HEAD') + git('diff', 'HEAD'))
    for name in git('ls-files', '-o', '--exclude-standard', '-z').split(b'\0'):
        if name:
            with open(os.path.join(os.fsencode(ROOT), name), 'rb') as file:
                found.update(name + file.read())
    return found.hexdigest()


class Memory:
    """How long programs took, and which of an interrupted `full` are done."""

    def __init__(self, folder, mode):
        self.times_path = os.path.join(folder, 'test-times.json')
        self.times = read_json(self.times_path)
        self.mine = self.times.setdefault(mode, {})
        self.done_path = os.path.join(folder, 'test-done.json')
        self.tree = tree() if mode == 'full' else ''
        done = read_json(self.done_path) if mode == 'full' and not os.environ.get('FRESH') else {}
        self.done = done.get('done', {}) if done.get('tree') == self.tree else {}

    def note(self, test, found, took_s):
        self.mine[test.key] = round(took_s, 1)
        write_json(self.times_path, self.times)
        if self.tree and not found.failed:
            self.done[test.key] = vars(found)
            write_json(self.done_path, {'tree': self.tree, 'done': self.done})

    def forget(self):
        """`full` is over: the next begins anew."""
        if self.tree and os.path.exists(self.done_path):
            os.unlink(self.done_path)


# ---- what is told ----

def minutes(seconds):
    return f'{seconds:.0f} s' if seconds < 100 else f'{int(seconds) // 60} min {int(seconds) % 60:02} s'


def just(mode, test, case=''):
    """How to run one again."""
    target = 'test' if os.path.basename(test.build) == 'build' else 'test-full'
    full = 'MUSTER_TEST_FULL=1 ' if mode == 'full' else ''
    return f'{full}make {target} ONLY={test.name}' + (f' CASE={case}' if case and ' ' not in case else '')


def last_lines(path, n):
    with open(path, encoding='utf-8', errors='replace') as file:
        lines = file.read().splitlines()
    return ([f'({len(lines) - n} lines before)'] if len(lines) > n else []) + lines[-n:]


class Teller:
    def __init__(self, mode, n):
        self.mode = mode
        self.n = n
        self.i = 0
        self.all = results.Results()
        self.failures = []
        self.stages = collections.OrderedDict((stage, [0, 0, 0.0]) for stage in STAGES)

    def start(self, about):
        print(f'tests: {self.n} program{"s" * (self.n != 1)}, about {about}', flush=True)

    def over(self, test, found, took_s):
        self.i += 1
        self.all.add(found)
        stage = self.stages[test.stage]
        stage[0] += 1
        stage[1] += found.cases_n
        stage[2] += took_s
        word = 'FAILED' if found.failed else 'ok' if found.passed else 'skip'
        skipped = f', {len(found.skipped)} skipped' if found.skipped else ''
        print(f'{self.i:4}/{self.n}  {word:7} {test.title:38} {took_s:6.1f} s  '
              f'{found.cases_n} case{"s" * (found.cases_n != 1)}{skipped}', flush=True)
        if found.failed:
            self.fail(test, found)

    def fail(self, test, found):
        for case, why in found.failed:
            print(f'        not ok: {case or why}{": " + why if case and why else ""}')
            self.failures.append((test, case, why))
        for line in last_lines(test.log + '.log', TOLD_LINES):
            print(f'        | {line}')
        print(f'        whole log: {os.path.relpath(test.log)}.log', flush=True)

    def end(self, took_s):
        print(f'\n{"suite":12} {"programs":>8} {"cases":>7} {"seconds":>8}')
        for stage, (programs, cases, seconds) in self.stages.items():
            if programs:
                print(f'{stage:12} {programs:8} {cases:7} {seconds:8.1f}')
        print(f'in {minutes(took_s)}')
        for why, n in collections.Counter(self.all.skipped).most_common():
            print(f'skipped {n}: {why}')
        for test, case, why in self.failures:
            print(f'FAILED {test.title}: {case or why}{": " + why[:200] if case and why else ""}')
        for command in dict.fromkeys(just(self.mode, test, case) for test, case, _ in self.failures):
            print(f'  run just that: {command}')
        print(self.all.line(), flush=True)


# ---- running ----

class Runner:
    """So many at a time; one that must be alone waits until it is, and others wait for it."""

    def __init__(self, tests, jobs, on_over):
        self.tests = collections.deque(tests)
        self.jobs = jobs
        self.on_over = on_over
        self.running = set()
        self.changed = threading.Condition()
        self.ended = False

    def next(self):
        """The next that may start now; None: there is no more."""
        with self.changed:
            while self.tests and not self.ended:
                test = self.tests[0]
                if not self.running or not (test.alone or any(one.alone for one in self.running)):
                    self.running.add(self.tests.popleft())
                    return test
                self.changed.wait()
            return None

    def work(self):
        while test := self.next():
            found, took_s = test.run()
            with self.changed:
                self.running.discard(test)
                if not self.ended:
                    self.on_over(test, found, took_s)
                self.changed.notify_all()

    def run(self):
        threads = [threading.Thread(target=self.work) for _ in range(self.jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():  # Python looks for signals between two waits.
                thread.join(0.1)

    def stop(self):
        self.ended = True
        for test in list(self.running):
            while test.process is None and test in self.running:  # It is just being started.
                time.sleep(0.01)
            test.end()


def main(words):
    names = words[words.index('--') + 1:] if '--' in words else []
    mode, *builds = words[:words.index('--')] if '--' in words else words
    times_n = int(os.environ.get('TIMES') or 1)
    tests = [test for build in builds for test in load(build, times_n) if wanted(test, mode, names)]
    unknown = set(names) - {test.name for test in tests} - {test.stage + '/' for test in tests}
    if unknown:
        sys.exit(f'tests: there is no program {", ".join(sorted(unknown))}; '
                 f'`meson test -C {builds[0]} --list` names all')
    for build in builds:
        os.makedirs(os.path.join(build, 'test-logs'), exist_ok=True)
    memory = Memory(builds[0], mode)
    before = {test.key for test in tests if test.key in memory.done and not names}
    teller = Teller(mode, len(tests) - len(before))
    for key in before:
        teller.all.add(results.Results(**memory.done[key]))
    if before:
        print(f'tests: {len(before)} programs were done before and nothing has changed since (FRESH=1: all of them)')
    tests = in_order([test for test in tests if test.key not in before], memory.mine)
    cores_n = len(os.sched_getaffinity(0))
    jobs = int(os.environ.get('JOBS') or cores_n + cores_n // 2)
    known = [memory.mine.get(test.key) for test in tests]
    teller.start(ABOUT[mode] if None in known and not names else minutes(sum(s or 1 for s in known) / jobs))

    def on_over(test, found, took_s):
        if not os.environ.get('CASE'):
            memory.note(test, found, took_s)
        teller.over(test, found, took_s)

    runner = Runner(tests, jobs, on_over)

    def on_signal(number, _frame):
        print(f'tests: interrupted after {teller.i} of {teller.n} programs' +
              ('; the same command goes on from here' if mode == 'full' else ''), flush=True)
        runner.stop()
        os._exit(128 + number)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, on_signal)
    began = time.monotonic()
    runner.run()
    teller.end(time.monotonic() - began)
    with open(os.path.join(builds[0], 'test-count.txt'), 'w', encoding='utf-8') as file:
        print(teller.all.line(), file=file)
    if not teller.failures:
        memory.forget()
    return 0 if not teller.all.failed and teller.all.passed else 1


if __name__ == '__main__':
    if len(sys.argv) < 3 or sys.argv[1] not in ABOUT:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
