"""Real orchestrators, agents and scripts on loopback, for end-to-end tests.

    with kit.World() as world:
        orchestrator = world.orchestrator(*kit.SERVE)
        job = orchestrator.job('default', nnodes='1:2')
        a = job.node('a')
        reports = job.settled('a')      # by rank: what scripts/report.py found in its environment
        job.finish()                    # the scripts may exit
        assert a.wait() == 0

A world has a folder of its own, in which everything that it starts keeps its files, and a marker
in the environment of everything that it starts. When it is left, it kills its orchestrators and
agents as `kill -9` does, and it is an error if anything that carries the marker is still there a
little later: so every case also shows that agents leave nothing behind. When a case fails, the
logs go with the failure.

The first argument of a test is the path of muster; names of cases may follow, to run only those.
"""
import atexit
import contextlib
import glob
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import tap  # pylint: disable=wrong-import-position

LONG_S = 60  # Against hanging only.
END_S = 300  # … of a process that has yet to do all of its work
LOOK_S = 0.01
LOG_LINES = 12  # of each process, with a failure; the rest is in a file
# Nobody's lease lapses because the machine is busy: a closed connection, or an exit that is reported, is a loss
# at once whatever the lease.
SERVE = ('--lease', '10', '--join-window', '0.2')
LEASE_S = 2
LAPSING = ('--lease', str(LEASE_S), '--join-window', '0.2')  # for cases in which one does
# For cases in which scripts end badly and no agent is killed: by default all wait only 0.1 s for the next life of
# such a script, and for the word of another node that explains why it ended. A busy machine may need longer.
PATIENCE = ('--reconnect', '10')
PATIENT = (*SERVE, *PATIENCE)
LEFT_S = 10  # So long after agents were killed, nothing of theirs may be left.
MARKER = 'E2E_MARKER'
SANITIZER = re.compile(r'(Address|Leak|UndefinedBehavior)Sanitizer:|: runtime error: ')
KEPT = ('PATH', 'LANG', 'LC_ALL', 'LD_LIBRARY_PATH', 'ASAN_OPTIONS', 'UBSAN_OPTIONS', 'MUSTER_LOG')
FULL = bool(os.environ.get('MUSTER_TEST_FULL'))
LOGS = os.environ.get('MUSTER_TEST_LOGS')  # A folder for the whole logs of cases that failed.
MUSTER = os.path.abspath(sys.argv[1]) if len(sys.argv) > 1 else 'muster'
SCRIPTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'scripts')


def wait_until(look, what, bound_s=LONG_S):
    """Calls look() until it gives something true, and returns that. What it costs to look is at most a third
    of the time: others need the machine."""
    began = time.monotonic()
    until = began + bound_s
    while True:
        found = look()
        if found:
            return found
        now = time.monotonic()
        if now > until:
            raise AssertionError(f'in {bound_s} s there was no time when {what}; '
                                 f'last: {found!r}')
        time.sleep(max(LOOK_S, min(2 * (now - began), 0.2)))
        began = time.monotonic()


_reserved = []  # The sockets that keep our ports from other tests; they go with this process.


def reserve(port):
    """Whether no other test has it, or will."""
    one = socket.socket(socket.AF_UNIX)
    try:
        one.bind(f'\0muster-test-port-{port}')
    except OSError:
        one.close()
        return False
    _reserved.append(one)
    return True


def nobody_listens(port):
    with socket.socket() as one:
        # A process that another thread is just starting may hold this socket for a moment longer: without
        # SO_REUSEADDR the port would be in use until then.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind(('127.0.0.1', port))
        except OSError:
            return False
        return True


def free_port():
    """One that is free and, unlike those that the kernel or agents (from 20000) give out, stays so
    while nobody listens."""
    while True:
        port = random.SystemRandom().randrange(10000, 20000)
        if nobody_listens(port) and reserve(port):
            return port


# ---- processes, by /proc ----

def _pids():
    return [int(name) for name in os.listdir('/proc') if name.isdigit()]


def _read(path):
    try:
        with open(path, 'rb') as file:
            return file.read()
    except OSError:  # It ended meanwhile.
        return b''


def stat_of(pid):
    """(state, parent, group, session), or None if there is no such process."""
    text = _read(f'/proc/{pid}/stat')
    if not text:
        return None
    fields = text.rpartition(b')')[2].split()
    return (fields[0].decode(), *map(int, fields[1:4]))


def flip(path, at=None):
    """One bit; where, is drawn unless it is said."""
    at = random.randrange(os.path.getsize(path)) if at is None else at
    with open(path, 'r+b') as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def lives(pid):
    found = stat_of(pid)
    return found is not None and found[0] not in 'ZX'


def in_groups(groups):
    """Living processes whose group or session is one of these."""
    found = {pid: stat_of(pid) for pid in _pids()}
    return [pid for pid, stat in found.items()
            if stat is not None and stat[0] not in 'ZX' and set(stat[2:4]) & set(groups)]


def with_variable(name, value):
    """Living processes that were started with this in their environment."""
    want = f'\0{name}={value}\0'.encode()
    return [pid for pid in _pids() if want in b'\0' + _read(f'/proc/{pid}/environ') and lives(pid)]


def tell(pid):
    words = _read(f'/proc/{pid}/cmdline').replace(b'\0', b' ').decode(errors='replace')
    return f'{pid} ({words.strip()}) {stat_of(pid)}'


def _kill(pid, number=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


# ---- what a case uses ----

_worlds = set()
_worlds_lock = threading.Lock()


class World:
    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix='mu-')
        self.marker = secrets.token_hex(8)
        self.started = []
        self.known = []  # of the processes that may still be there when it ends
        self.last = []  # What to call when nothing runs any more, before the folder goes.
        for name in ('state', 'run', 'tmp'):
            os.mkdir(os.path.join(self.dir, name), 0o700)

    def __enter__(self):
        with _worlds_lock:
            _worlds.add(self)
        return self

    def __exit__(self, kind, error, trace):
        left = self.end()
        if left and error is None:
            error = AssertionError('left behind: ' + ', '.join(left))
        if error is None and any(SANITIZER.search(one.log()) for one in self.started):
            error = AssertionError('a sanitizer has found something')
        if error is not None and not isinstance(error, tap.Skipped):
            error.add_note(self.logs())
        with _worlds_lock:
            _worlds.discard(self)
        shutil.rmtree(self.dir, ignore_errors=True)
        if error is not None and kind is None:
            raise error

    def end(self):
        """Agents and orchestrators first: what is there a little later was left behind, and is
        killed too. Tells of that."""
        left = []
        for one in self.started:
            one.kill9()
        try:
            wait_until(self.is_empty, 'nothing was left', LEFT_S)
        except AssertionError:
            left = [tell(pid) for pid in self.pids()]
            self.kill_all()
        for action in self.last:
            action()
        return left

    def is_empty(self):
        """Whether nothing lives here. All of /proc is read again only when all that was found there is gone: that
        costs much, and others need the machine."""
        self.known = [pid for pid in self.known if lives(pid)] or self.pids()
        return not self.known

    def pids(self):
        """Whatever lives of all that was started here, at any remove."""
        return with_variable(MARKER, self.marker)

    def kill_all(self):
        while True:
            left = self.pids()
            if not left:
                return
            for pid in left:
                _kill(pid)
            time.sleep(LOOK_S)

    def logs(self):
        """The end of each log; all of them are kept in a folder, which is named."""
        parts = []
        for one in self.started:
            lines = one.log().splitlines()
            parts.append(f'---- {one.title}: the last of {len(lines)} lines')
            parts.extend(lines[-LOG_LINES:])
        if LOGS:
            kept = os.path.join(LOGS, os.path.basename(self.dir))
            os.makedirs(kept, exist_ok=True)
            for one in self.started:
                for path in glob.glob(one.path + '.???'):
                    shutil.copy(path, kept)
            parts.append(f'---- all of it: {kept}')
        return '\n'.join(parts)

    def env(self, **more):
        env = {name: os.environ[name] for name in KEPT if name in os.environ}
        return {'PYTHON_EXEC': sys.executable, **env, 'HOME': self.dir, 'TMPDIR': os.path.join(self.dir, 'tmp'),
                'XDG_STATE_HOME': os.path.join(self.dir, 'state'),
                'XDG_RUNTIME_DIR': os.path.join(self.dir, 'run'), MARKER: self.marker, **more}

    def orchestrator(self, *flags, name='serve', before=(), address='127.0.0.1', **env):
        one = Orchestrator(self, name, flags, env)
        one.before = before
        one.address = address
        one.start()
        return one

    def job(self, name='default', **settings):
        """A job without an orchestrator; for --standalone."""
        return Job(self, None, name, **settings)


class Process:
    """One of muster's, again and again under the same name; its log is kept from start to start."""

    def __init__(self, world, title):
        self.world = world
        self.title = title
        self.path = os.path.join(world.dir, title)
        self.process = None
        self.code = None
        self.before = ()  # Words of a command that goes on as muster.
        world.started.append(self)

    def spawn(self, words, **env):
        with open(self.path + '.out', 'ab') as out, open(self.path + '.err', 'ab') as err:
            self.process = subprocess.Popen([*self.before, MUSTER, *words], stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=err, env=self.world.env(**env),
                                            cwd=self.world.dir, start_new_session=True)

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        return _read(self.path + '.err').decode(errors='replace')

    def out(self):
        return _read(self.path + '.out').decode(errors='replace')

    def send(self, number):
        assert self.process.poll() is None, f'{self.title} has ended'
        self.process.send_signal(number)

    def kill9(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self):
        """As if the machine stood still."""
        self.send(signal.SIGSTOP)
        wait_until(lambda: stat_of(self.pid)[0] == 'T', f'{self.title} stood still')

    def cont(self):
        self.send(signal.SIGCONT)

    def ended(self):
        return self.process.poll() is not None

    def wait(self):
        """Its exit code; negative: the signal that killed it."""
        try:
            return self.process.wait(END_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f'{self.title} did not end in {END_S} s') from None

    def terminate(self, number=signal.SIGTERM):
        self.send(number)
        return self.wait()

    def wait_log(self, text, n=1):
        """Until the log has this at least n times."""
        wait_until(lambda: self.log().count(text) >= n or self.ended_without(text, n),
                   f'the log of {self.title} said "{text}"')

    def ended_without(self, text, n):
        if self.ended():
            assert self.log().count(text) >= n, f'{self.title} ended, and never said "{text}"'
        return False


class Orchestrator(Process):
    def __init__(self, world, name, flags, env):
        super().__init__(world, name)
        self.flags = flags
        self.more_env = env
        self.data = os.path.join(world.dir, name + '.data')
        self.address = '127.0.0.1'
        self.port = free_port()
        self.starts_n = 0

    @property
    def where(self):
        return f'{self.address}:{self.port}'

    @property
    def token_file(self):
        return os.path.join(self.data, 'token')

    def start(self, *more):
        self.starts_n += 1
        self.spawn(('serve', '--listen', self.where, '--data', self.data, *self.flags, *more),
                   **self.more_env)
        self.wait_log('listens on', self.starts_n)

    def kill_in(self, wait_s):
        """A crash that comes while the case goes on; the thread of it."""
        thread = threading.Thread(target=lambda: (time.sleep(wait_s), self.kill9()))
        thread.start()
        return thread

    def restart(self, *more):
        """A crash, then another on the same port and data."""
        self.kill9()
        self.start(*more)

    def ask(self, *words):
        """A command: (exit code, stdout, stderr)."""
        done = subprocess.run([*self.before, MUSTER, *words, '--endpoint', self.where, '--token-file',
                               self.token_file], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False, timeout=LONG_S,
                              env=self.world.env())
        return done.returncode, done.stdout, done.stderr

    def say(self, *words):
        """A command that must be answered with ok."""
        code, out, err = self.ask(*words)
        assert code == 0, f'muster {" ".join(words)}: {code}, {err}'
        return out

    def own_status(self):
        """Of the orchestrator itself: its journal, connections, and whom it refused."""
        return json.loads(self.say('status', '--orchestrator', '--json'))

    def job(self, name='default', **settings):
        return Job(self.world, self, name, **settings)

    def events(self, job='', kind=''):
        """What it has noted since its last start."""
        words = ('--job', job) if job else ()
        found = [json.loads(line) for line in self.say('events', '--json', *words).splitlines()]
        return [event for event in found if kind in ('', event['event'])]


class Job:
    """Its nodes run scripts/report.py unless they are told otherwise."""

    def __init__(self, world, orchestrator, name, nnodes='1:8', mode='restart', nproc=1):
        self.world = world
        self.orchestrator = orchestrator
        self.name = name
        self.nnodes = nnodes
        self.mode = mode
        self.nproc = nproc
        self.dir = os.path.join(world.dir, 'job-' + name)
        os.mkdir(self.dir)

    def node(self, name, *flags, script='report.py', args=(), where=None, before=(), **env):
        """Starts an agent."""
        one = Node(self, name, flags, script, args, where, env)
        one.before = before
        one.start()
        return one

    def nodes(self, *names):
        """One after the other, so that this is their order."""
        started = []
        for name in names:
            started.append(self.node(name))
            started[-1].wait_log('in job ')
        return started

    # ---- what the orchestrator says ----

    def status(self):
        """None while the job, or the orchestrator, is not there."""
        code, out, _ = self.orchestrator.ask('status', self.name, '--json')
        return json.loads(out) if code == 0 else None

    def members(self):
        """Names of the nodes by rank."""
        return [m['node'] for m in (self.status() or {'members': []})['members']]

    def waiting(self):
        return [w['node'] for w in (self.status() or {'waiting': []})['waiting']]

    # ---- what its scripts say ----

    def reports(self, generation=None):
        """All that scripts wrote, oldest first."""
        found = []
        for path in glob.glob(os.path.join(self.dir, 'report.*.json')):
            with open(path, encoding='utf-8') as file:
                found.append(json.load(file))
        return [r for r in sorted(found, key=lambda r: (r['generation'], r['rank'], r['time']))
                if generation in (None, r['generation'])]

    def complete(self, nodes, after=0):
        """Reports by rank of the newest generation, if it is newer than `after`, consists of these
        nodes, and all its scripts have started."""
        reports = self.reports()
        newest = [r for r in reports if r['generation'] == reports[-1]['generation']]
        if (not newest or newest[0]['generation'] <= after or len(newest) != newest[0]['size'] or
                sorted({r['node'] for r in newest}) != sorted(nodes)):
            return None
        return newest

    def settled(self, *nodes, after=0):
        """Waits until exactly these nodes run scripts in one generation newer than `after`, and the
        orchestrator knows; their reports by rank."""
        reports = wait_until(lambda: self.complete(nodes, after),
                             f'the nodes {nodes} ran scripts in a generation after {after}')
        if self.orchestrator is not None:
            generation = reports[0]['generation']
            wait_until(lambda: (self.status() or {}).get('active') == generation,
                       f'generation {generation} was active')
        return reports

    # ---- what its scripts are to do ----

    def finish(self, code=0, who=''):
        """Scripts exit with this code: all, or those of "NODE", "NODE.SLOT"; "…@GENERATION": only
        in that one."""
        path = os.path.join(self.dir, 'finish' + ('.' if who and who[0] != '@' else '') + who)
        with open(path + '.new', 'w', encoding='ascii') as file:
            file.write(str(code))
        os.rename(path + '.new', path)

    def ends_well(self, *nodes):
        """All scripts finish, and these agents exit with 0."""
        self.finish()
        codes = [node.wait() for node in nodes]
        assert set(codes) == {0}, codes


class Node(Process):
    def __init__(self, job, name, flags, script, args, where, env):
        super().__init__(job.world, f'{job.name}-{name}')
        self.job = job
        self.name = name
        self.flags = flags
        self.script = script if os.path.isabs(script) else os.path.join(SCRIPTS, script)
        self.args = args
        self.where = where
        self.more_env = env
        self.mark = f'{job.world.marker}-{job.name}-{name}'

    def start(self):
        job = self.job
        words = ['run', '--job', job.name, '--nnodes', job.nnodes, '--mode', job.mode,
                 '--nproc-per-node', str(job.nproc)]
        if job.orchestrator is not None:
            words += ['--node-name', self.name, '--token-file', job.orchestrator.token_file,
                      '--rdzv_endpoint', self.where or job.orchestrator.where]
        self.spawn([*words, *self.flags, self.script, *self.args], E2E_DIR=job.dir,
                   E2E_NODE=self.mark, **self.more_env)

    def pids(self):
        """Agent, keeper, workers, and whatever those started."""
        return with_variable('E2E_NODE', self.mark)

    def script_pid(self, slot=0):
        """Of its newest script."""
        mine = [r for r in self.job.reports() if r['node'] == self.name and r['slot'] == slot]
        return mine[-1]['pid']


# ---- at the end, whatever that is ----

def _kill_worlds():
    with _worlds_lock:
        left = list(_worlds)
    for world in left:
        world.end()
        shutil.rmtree(world.dir, ignore_errors=True)


def _on_signal(number, _frame):
    _kill_worlds()
    os._exit(128 + number)


def run(module, jobs=1):
    """The cases of a test, so many at a time."""
    atexit.register(_kill_worlds)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _on_signal)
    tap.run(module, jobs, sys.argv[2:])
