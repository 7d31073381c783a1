"""Python scripts on real workers, for tests: orchestrators and agents as tests/e2e/kit.py starts them.

    def test_something(cluster):
        c = cluster('''
            import muster
            run = muster.join()
            print('sum', run.allreduce(memoryview(bytearray(4)).cast('i'))[0])
        ''', 3)
        c.wait()
        assert c.lines('sum') == ['sum 0'] * 3

The folder of the build is MUSTER_BUILD, or `build` in the tree. Whatever a test leaves running is killed,
and it is a failure.
"""
import os
import re
import signal
import string
import subprocess
import sys
import textwrap

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get('MUSTER_BUILD') or os.path.join(ROOT, 'build'))
PACKAGE = os.path.join(BUILD, 'python')
SANITIZED = os.path.join(HERE, 'sanitized.sh') if os.environ.get('MUSTER_SANITIZED') else None
PYTHON = SANITIZED or '/usr/bin/python3'  # Debian's, which has torch and numpy.
sys.path.insert(0, os.path.join(ROOT, 'tests', 'e2e'))
import audit  # noqa: E402
import kit  # noqa: E402

kit.MUSTER = os.path.join(BUILD, 'muster')
FULL = kit.FULL
SERVE = ('--lease', '2', '--join-window', '0.2')
PREFIX = re.compile(r'^\[s?\d+\] ?', re.M)  # s: a slot that has no rank


def environment(**more):
    """For a script: the package of this build, and one thread."""
    return {'PYTHONPATH': PACKAGE, 'PYTHON_EXEC': PYTHON, 'PYTHONUNBUFFERED': '1', 'PYTHONDONTWRITEBYTECODE': '1',
            'OMP_NUM_THREADS': '1', **{name: str(value) for name, value in more.items()}}


def write_script(folder, text, name='script.py'):
    """A script of that text, or, if it is a path, that one."""
    if '\n' not in text:
        return os.path.join(ROOT, text)
    path = os.path.join(folder, name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(textwrap.dedent(text))
    return path


def alone(script, args=(), timeout=600, check=True, **env):
    """A script by itself, without an agent: its CompletedProcess."""
    with kit.World() as world:
        done = subprocess.run([PYTHON, write_script(world.dir, script), *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=False,
                              timeout=timeout, env=world.env(**environment(**env)), cwd=world.dir)
    assert not kit.SANITIZER.search(done.stderr), done.stderr[-8000:]
    assert not check or done.returncode == 0, f'{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}'
    return done


class Cluster:
    """An orchestrator and nodes with one worker each, called a, b, c … in the order of their start."""

    def __init__(self, world, script, workers=1, args=(), env=None, flags=(), serve=SERVE, nnodes='1:8',
                 mode='inprocess', nproc=1):
        self.world = world
        self.dir = world.dir
        self.script = write_script(world.dir, script)
        self.args = tuple(map(str, args))
        self.flags = tuple(flags)
        self.audit_dir = os.path.join(world.dir, 'audit')
        os.mkdir(self.audit_dir)
        self.env = environment(MUSTER_AUDIT=self.audit_dir, **(env or {}))
        self.orchestrator = world.orchestrator(*serve)
        self.job = self.orchestrator.job(nnodes=nnodes, mode=mode, nproc=nproc)
        self.nodes = {}  # by name
        for _ in range(workers):
            self.join()

    def join(self, args=(), flags=(), **env):
        """Another node; its name."""
        name = string.ascii_lowercase[len(self.nodes)]
        node = self.job.node(name, *self.flags, *flags, script=self.script, args=(*self.args, *map(str, args)),
                             **{**self.env, **{key: str(value) for key, value in env.items()}})
        self.nodes[name] = node
        node.wait_log('in job ')
        return name

    def name(self, who):
        """Of a node: its name, or its rank now."""
        return self.job.members()[who] if isinstance(who, int) else who

    def kill(self, who):
        """kill -9 of a whole node, agent and all; its name."""
        name = self.name(who)
        self.nodes[name].kill9()
        return name

    def worker_pids(self, who):
        """Processes that run the script on that node."""
        return [pid for pid in self.nodes[self.name(who)].pids()
                if self.script.encode() in kit._read(f'/proc/{pid}/cmdline').split(b'\0')[:3]]

    def kill_worker(self, who, number=signal.SIGKILL):
        """kill -9 of the script alone; its agent starts another, if it may."""
        name = self.name(who)
        for pid in self.worker_pids(name):
            kit._kill(pid, number)
        return name

    def drain(self, who):
        """Asks a node to leave; its name."""
        name = self.name(who)
        self.orchestrator.say('drain', name)
        return name

    def out(self, who=None):
        """What scripts have printed, without the ranks before each line."""
        names = list(self.nodes) if who is None else [self.name(who)]
        return ''.join(PREFIX.sub('', self.nodes[name].out()) for name in names)

    def lines(self, begin='', who=None):
        """Those of the lines that begin so, node by node."""
        return [line for line in self.out(who).splitlines() if line.startswith(begin)]

    def wait_lines(self, begin, n=1, who=None, timeout=120):
        """Until there are at least n lines that begin so."""
        return kit.wait_until(lambda: len(found := self.lines(begin, who)) >= n and found,
                              f'there were {n} lines "{begin}…"', timeout)

    def errors(self):
        return ''.join(node.log() for node in self.nodes.values())

    def members(self):
        """Names by rank."""
        return self.job.members()

    def wait(self, *names, timeout=300, codes=(0,)):
        """Until these nodes (all that were not killed) have ended, each with one of these codes; the codes
        by name."""
        found = {}
        for name in names or [name for name, node in self.nodes.items() if not node.ended()
                              or node.process.returncode != -signal.SIGKILL]:
            kit.wait_until(self.nodes[name].ended, f'node {name} had ended', timeout)
            found[name] = self.nodes[name].process.returncode
        assert set(found.values()) <= set(codes), (found, self.errors()[-4000:])
        return found

    def demand_audit(self, samples, global_batch, steps, slices=8):
        """Each sample counted exactly once."""
        return audit.demand(self.audit_dir, audit.Walk(samples, global_batch, slices), steps)
