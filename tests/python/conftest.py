"""Fixtures, and TAP: each case is a line, so that `make test` counts it."""
import atexit
import os
import signal
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import cluster as module  # noqa: E402
import kit  # noqa: E402

atexit.register(kit._kill_worlds)
signal.signal(signal.SIGTERM, kit._on_signal)  # Whoever ends a test leaves nothing behind, either.


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    if call.when == 'call':
        item.failed = outcome.get_result().failed


def pytest_configure(config):
    config.addinivalue_line('markers', 'plain: not with sanitizers, which change what it looks at')
    if os.environ.get('MUSTER_TAP'):
        config.pluginmanager.register(Tap(), 'muster-tap')


def pytest_collection_modifyitems(items):
    """CASE=NAME: that one, with all its parameters, or NAME[…] with these."""
    only = os.environ.get('CASE')
    if only:
        items[:] = [item for item in items if only in (item.name.removeprefix('test_'),
                                                       item.originalname.removeprefix('test_'))]


def pytest_runtest_setup(item):
    if module.SANITIZED and item.get_closest_marker('plain'):
        pytest.skip('not with sanitizers')


@pytest.fixture
def world(request):
    """A folder, and whatever is started in it; see tests/e2e/kit.py. Its logs go with a failure."""
    with kit.World() as one:
        yield one
        if getattr(request.node, 'failed', False):
            print(one.logs())


@pytest.fixture
def cluster(world):
    """cluster(script, workers, …) -> Cluster: a script (text, or a path below the tree) on so many nodes."""
    def start(script, workers=1, **settings):
        return module.Cluster(world, script, workers, **settings)
    return start


@pytest.fixture
def alone():
    """alone(script, args) -> CompletedProcess: a script by itself."""
    return module.alone


# ---- TAP, if MUSTER_TAP is set; goes with `-p no:terminal` ----

class Tap:
    """One line for each case when all of it is over, its fixtures too; on stderr, why it failed."""

    def __init__(self):
        self.out = os.fdopen(os.dup(1), 'w', encoding='utf-8')
        self.err = os.fdopen(os.dup(2), 'w', encoding='utf-8')
        self.n = 0
        self.reports = []

    def say(self, line):
        self.out.write(line + '\n')
        self.out.flush()

    def explain(self, name, report, sections):
        self.err.write(f'---- {name} ({report.when})\n{report.longreprtext}\n')
        for title, text in sections:
            self.err.write(f'-- {title}\n{text}\n')
        self.err.flush()

    def pytest_collection_finish(self, session):
        self.say(f'1..{len(session.items)}')

    def pytest_collectreport(self, report):
        if report.failed:
            self.explain(report.nodeid, report, report.sections)

    def pytest_runtest_logreport(self, report):
        self.reports.append(report)
        if report.when != 'teardown':
            return
        reports, self.reports = self.reports, []
        self.n += 1
        name = report.nodeid.rpartition('::')[2].removeprefix('test_')
        failed = [one for one in reports if one.failed]
        skipped = [one for one in reports if one.skipped]
        for one in failed:  # The last report has what was printed when fixtures ended, too: the logs.
            self.explain(name, one, report.sections)
        if failed:
            self.say(f'not ok {self.n} - {name}')
        elif skipped:
            why = skipped[0].longrepr[2] if isinstance(skipped[0].longrepr, tuple) else ''
            self.say(f'ok {self.n} - {name} # SKIP {why.removeprefix("Skipped: ")}')
        else:
            self.say(f'ok {self.n} - {name}')
        self.say(f'# {name} took {sum(one.duration for one in reports):.1f} s')


def pytest_addoption(parser, pluginmanager):
    """Failed assertions are explained at length only if somebody asks for it, by an option of the terminal."""
    if not pluginmanager.has_plugin('terminal') and os.environ.get('MUSTER_TAP'):
        parser.addoption('--verbose', dest='verbose', type=int, default=1)
