"""An orchestrator, agents and what their workers write down; all on this machine."""
import mmap
import os
import re
import resource
import signal
import struct
import subprocess
import time

LONG = 120  # Against hanging only.
CPUCLOCK_SCHED = 2  # As clock_getcpuclockid(3) makes it.
PAGE = os.sysconf('SC_PAGE_SIZE')
START, TERM = 1, 2


class Failed(Exception):
    """What was to be measured did not happen."""


def wait_for(what, condition, pause=0.002):
    until = time.monotonic() + LONG
    while time.monotonic() < until:
        value = condition()
        if value:
            return value
        time.sleep(pause)
    raise Failed(f'{what}: not within {LONG} s')


def environment(home, **more):
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(('MUSTER_', 'PET_')) and name != 'XDG_STATE_HOME'}
    return {**env, 'HOME': home, **more}


def raise_files():
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Serve:
    """`muster serve` on a free port, with its data in `folder`."""

    def __init__(self, muster, folder, *flags):
        os.makedirs(folder)
        self.log_path = f'{folder}/serve.log'
        with open(self.log_path, 'w', encoding='utf-8') as log:
            self.process = subprocess.Popen(
                [muster, 'serve', '--listen', '127.0.0.1:0', '--data', f'{folder}/data', *flags],
                stdin=subprocess.DEVNULL, stderr=log, env=environment(folder),
                preexec_fn=raise_files)
        self.pid = self.process.pid
        self.token = f'{folder}/data/token'
        self.endpoint = wait_for('the orchestrator listens', self.find_endpoint)

    def find_endpoint(self):
        if self.process.poll() is not None:
            raise Failed(f'the orchestrator ended: {self.text()}')
        found = re.search(r'listens on (\S+);', self.text())
        return found and found.group(1)

    def text(self):
        with open(self.log_path, encoding='utf-8', errors='replace') as log:
            return log.read()

    def cpu_s(self):
        """Of all its threads, by its own clock: /proc/PID/stat counts in ticks."""
        return time.clock_gettime(~self.pid << 3 | CPUCLOCK_SCHED)

    def rss(self):
        with open(f'/proc/{self.pid}/statm', encoding='utf-8') as statm:
            return int(statm.read().split()[1]) * PAGE

    def close(self):
        code = end(self.process)
        if code != 0:
            raise Failed(f'the orchestrator ended with status {code}: {self.text()[-2000:]}')


def end(process):
    """SIGTERM, then SIGKILL; of a process that we started. Its exit code."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


class Stamps:
    """The file that all workers of a run stamp; see stamp.c. A stamp is a tuple
    (ns, node, pid, rank, world, restarts, what)."""
    SIZE = struct.calcsize('QIIIIII')

    def __init__(self, path, room=65536):
        with open(path, 'wb') as file:
            file.truncate((room + 1) * self.SIZE)
        self.path = path
        self.file = open(path, 'r+b')
        self.map = mmap.mmap(self.file.fileno(), 0)

    def __len__(self):
        return struct.unpack_from('Q', self.map)[0]

    def since(self, first, what):
        """Those of one kind, from place `first` on."""
        found = []
        for place in range(first, len(self)):
            stamp = struct.unpack_from('QIIIIII', self.map, (place + 1) * self.SIZE)
            if stamp[6] == what:
                found.append(stamp)
        return found

    def newest(self):
        """By node, the stamp of its last start."""
        return {stamp[1]: stamp for stamp in self.since(0, START)}

    def close(self):
        self.map.close()
        self.file.close()


def alive(pid):
    """Whether it is there and no zombie."""
    try:
        with open(f'/proc/{pid}/stat', encoding='utf-8') as stat:
            return stat.read().rsplit(') ', 1)[1][0] not in 'ZX'
    except OSError:
        return False


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children', encoding='utf-8') as file:
        return [int(child) for child in file.read().split()]


def kill(pid):
    """kill -9, and when."""
    now_ns = time.monotonic_ns()
    os.kill(pid, signal.SIGKILL)
    return now_ns
