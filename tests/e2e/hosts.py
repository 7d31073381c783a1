"""Hosts made of network namespaces on one bridge: real TCP between them, which can be reset or cut.

    with hosts.World() as world:
        job = hosts.Training(world, elastic.trainer(200), limit=0)
        job.start('a', 'b', 'c')        # each on the host of its name
        world.reset('b')                # all TCP connections of that host, at once
        world.cut('a', 'b')             # nothing comes through any more; the connections are there
        world.heal('a', 'b')

The orchestrator has a host of its own, so that the connections of agents and those between workers can be told
apart. A connection is reset with `ss -K` (INET_DIAG_DESTROY), a pair of hosts is cut by blackhole routes. A module
that uses this calls enter() first: namespaces and mounts then belong to its process alone, and go with it however
it ends.
"""
import contextlib
import itertools
import os
import shutil
import subprocess
import sys
import time

import elastic
import kit
import mounts
import tap

NETNS_DIR = '/run/netns'
NETWORK = '10.213.78'
ORCHESTRATOR = 'o'
# A link whose other end acknowledges nothing for so long is lost: STREAM_SILENCE_S of src/link/stream.h.
SILENCE_S = 10  # STREAM_SILENCE_S of src/link/stream.h
# Whether a connection can be reset here, tried in a namespace by a process of its own.
TRY_RESET = """
import socket, subprocess
listener = socket.create_server(('127.0.0.1', 0))
one = socket.create_connection(listener.getsockname())
subprocess.run(['ss', '-K', '-tn', 'dst', '127.0.0.1'], check=True, stdout=subprocess.DEVNULL)
one.settimeout(1)
try:
    one.recv(1)
except ConnectionError:
    print('reset')
"""

_numbers = itertools.count()


def enter():
    """Goes on as a process whose mounts and network namespaces are its own, if there is a way."""
    mounts.enter()
    if os.environ[mounts.OWN] == '1':
        with contextlib.suppress(OSError):
            os.makedirs(NETNS_DIR, exist_ok=True)
        subprocess.run(['mount', '-t', 'tmpfs', 'tmpfs', NETNS_DIR], check=False)


def _ip(*words):
    done = subprocess.run(['ip', *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=kit.LONG_S)
    assert done.returncode == 0, f'ip {" ".join(words)}: {done.stdout.strip()}'


class World(kit.World):
    """Its hosts are made when they are first named, and are gone when nothing runs on them any more."""

    def __init__(self):
        super().__init__()
        self.prefix = f'mu{os.getpid()}-{next(_numbers)}-'
        self.switch = self.prefix + 'switch'
        self.addresses = {}
        self.cuts = set()  # (from, to)
        self.last.append(self.remove)

    def __enter__(self):
        super().__enter__()
        try:
            self.need()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def need(self):
        """The bridge and a first host; skips the case if that can't be had."""
        missing = [tool for tool in ('ip', 'ss', 'nsenter') if shutil.which(tool) is None]
        if missing or os.environ.get(mounts.OWN) != '1' or not os.path.ismount(NETNS_DIR):
            tap.skip(f'no network namespaces here: {", ".join(missing) or "mounting is not permitted"}')
        try:
            _ip('netns', 'add', self.switch)
            _ip('-n', self.switch, 'link', 'add', 'bridge', 'type', 'bridge')
            _ip('-n', self.switch, 'link', 'set', 'bridge', 'up')
            self.address(ORCHESTRATOR)
        except AssertionError as why:
            tap.skip(f'no network namespaces here: {why}')
        done = self.inside(ORCHESTRATOR, sys.executable, '-c', TRY_RESET)
        if done.stdout.strip() != 'reset':
            tap.skip(f'connections can not be reset here (INET_DIAG_DESTROY): {done.stderr.strip()}')

    def remove(self):
        for name in (*map(self.namespace, self.addresses), self.switch):
            subprocess.run(['ip', 'netns', 'delete', name], stderr=subprocess.DEVNULL, check=False)

    # ---- hosts ----

    def namespace(self, name):
        return self.prefix + name

    def address(self, name):
        """Of that host."""
        if name not in self.addresses:
            number = len(self.addresses) + 1
            self.addresses[name] = f'{NETWORK}.{number}'
            there = self.namespace(name)
            _ip('netns', 'add', there)
            _ip('link', 'add', 'eth0', 'netns', there, 'type', 'veth', 'peer', 'name', f'host{number}', 'netns',
                self.switch)
            _ip('-n', self.switch, 'link', 'set', f'host{number}', 'master', 'bridge', 'up')
            _ip('-n', there, 'address', 'add', self.addresses[name] + '/24', 'dev', 'eth0')
            _ip('-n', there, 'link', 'set', 'eth0', 'up')
            _ip('-n', there, 'link', 'set', 'lo', 'up')
        return self.addresses[name]

    def on(self, name):
        """Words before a command, with which it runs on that host."""
        self.address(name)
        return ('nsenter', f'--net={NETNS_DIR}/{self.namespace(name)}', '--')

    def inside(self, name, *words):
        return subprocess.run([*self.on(name), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              check=False, timeout=kit.LONG_S)

    def orchestrator(self, *flags, **more):
        return super().orchestrator(*flags, before=self.on(ORCHESTRATOR), address=self.address(ORCHESTRATOR), **more)

    def connected(self, a, b):
        """How many connections a has with b."""
        return len(self.inside(a, 'ss', '-H', '-tn', 'state', 'established', 'dst', self.address(b)).stdout.splitlines())

    # ---- what may happen to them ----

    def reset(self, *names, agents=False):
        """All connections of workers on these hosts, and with `agents` those to the orchestrator too; how many
        there were."""
        which = ('-K', '-H', '-tn') + (() if agents else ('not', 'dst', self.address(ORCHESTRATOR)))
        done = [self.inside(name, 'ss', *which) for name in names]
        assert not any(one.returncode for one in done), done
        return sum(len(one.stdout.splitlines()) for one in done)

    def cut(self, a, b, one_way=False):
        """What a sends to b is lost from now on, and the reverse unless it is only one way. Either way no
        connection between them can live: nothing is acknowledged."""
        for x, y in ((a, b),) if one_way else ((a, b), (b, a)):
            if (x, y) not in self.cuts:
                _ip('-n', self.namespace(x), 'route', 'add', 'blackhole', self.address(y) + '/32')
                self.cuts.add((x, y))

    def sever(self, a, b):
        """Cut, and both sides know it: their connections are gone, and no other can be made."""
        self.cut(a, b)
        for x, y in ((a, b), (b, a)):
            self.inside(x, 'ss', '-K', '-tn', 'dst', self.address(y))

    def heal(self, a, b):
        for x, y in ((a, b), (b, a)):
            if (x, y) in self.cuts:
                _ip('-n', self.namespace(x), 'route', 'delete', 'blackhole', self.address(y) + '/32')
                self.cuts.discard((x, y))

    def is_cut(self, a, b):
        return bool({(a, b), (b, a)} & self.cuts)

    def journal_disk(self, size='8m'):
        """A small one for an orchestrator that is yet to be started; mounts.fill() fills it."""
        return mounts.small_disk(self, 'serve.data', size)


class Training(elastic.Training):
    """Each node runs on the host of its name. Between workers it is TCP: their kernel is one, so that they would
    share memory."""

    def __init__(self, world, model, *flags, **more):
        super().__init__(world, model, *flags, **{'MUSTER_TRANSPORT': 'tcp', **more})

    def spawn(self, name, **more):  # pylint: disable=arguments-differ
        super().spawn(name, before=self.world.on(name), **more)

    def generation(self):
        """The newest one's number, once the orchestrator answers."""
        return kit.wait_until(self.job.status, 'the orchestrator answered')['generation']

    def steps_until(self, look, what, bound_s=kit.LONG_S):
        """Lets a step go now and then, if the last was done, until look() gives something true."""
        def step():
            found = look()
            if not found and self.last() >= self.at:
                self.limit(self.at + 1)
                time.sleep(0.1)  # What is awaited needs some time, and not many steps.
            return found
        return kit.wait_until(step, what, bound_s)

    def advance(self, *names, steps_n=20, bound_s=kit.LONG_S):
        """Until the workers of all these nodes have done so many more steps. One that was left out gets another
        chance at each step after that."""
        want = self.at + steps_n
        self.limit(want)
        self.steps_until(lambda: all(self.last(name) >= want for name in names), f'{names} had done step {want}',
                         bound_s)
