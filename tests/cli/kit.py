"""An orchestrator and nodes on this machine, for tests of what commands print and exit with.

The first argument of such a test is the path of muster.
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

MUSTER = sys.argv[1]
LONG = 60  # Against hanging only.
LOG_MAX = 1 << 24
USAGE, UNREACHABLE, DENIED, NOT_FOUND = 2, 3, 4, 5


def clean_env(home, **more):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(('MUSTER_', 'PET_')) and name != 'XDG_STATE_HOME'}
    return {**env, 'HOME': home, **more}


class Serve:
    """An orchestrator in a folder of its own, on a free port; `home` is its user's."""

    def __init__(self, home, *flags, listen='127.0.0.1:0'):
        self.home = home
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([MUSTER, 'serve', '--listen', listen, *flags],
                                        stderr=self.log, env=clean_env(home))
        self.port = None

    def text(self):
        # The process writes where the file stands: reading must not move that.
        return os.pread(self.log.fileno(), LOG_MAX, 0).decode('utf-8')

    def wait_for(self, pattern):
        """The first match in what it has logged; it has failed if it ends before."""
        until = time.monotonic() + LONG
        while time.monotonic() < until:
            ended = self.process.poll() is not None
            found = re.search(pattern, self.text())
            if found:
                return found
            assert not ended, self.text()
            time.sleep(0.01)
        raise AssertionError(f'no "{pattern}" in: {self.text()}')

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        return self.process.wait(LONG)

    def ask(self, *words, **env):
        return muster(*words, home=self.home, MUSTER_ENDPOINT=f'127.0.0.1:{self.port}', **env)


def muster(*words, home='/nonexistent', **env):
    done = subprocess.run([MUSTER, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, timeout=LONG, env=clean_env(home, **env))
    return done.returncode, done.stdout, done.stderr


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as name:
        yield name


@contextlib.contextmanager
def serving(*flags, home=None, listen='127.0.0.1:0'):
    with folder() as spare:
        serve = Serve(home or spare, *flags, listen=listen)
        try:
            serve.port = int(serve.wait_for(r'listens on \S+:(\d+)').group(1))
            yield serve
        finally:
            if serve.process.poll() is None:
                serve.process.kill()
                serve.process.wait()
            serve.log.close()


@contextlib.contextmanager
def node(serve, name, *flags):
    """An agent that runs something that would not end by itself."""
    agent = subprocess.Popen([MUSTER, 'run', '--nnodes', '1:2', '--mode', 'restart', '--node-name',
                              name, *flags, '--', 'sleep', '600'], stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL,
                             env=clean_env(serve.home, MUSTER_ENDPOINT=f'127.0.0.1:{serve.port}'))
    try:
        yield agent
    finally:
        if agent.poll() is None:
            agent.kill()
            agent.wait()


def wait_status(serve, what, *words):
    """The first status for which what(job) holds."""
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        status, out, err = serve.ask('status', '--json', *words)
        if status == 0 and out and what(json.loads(out)):
            return json.loads(out)
        time.sleep(0.01)
    raise AssertionError((status, out, err))


def nodes_of(job):
    return [member['node'] for member in job['members']]
