"""Python scripts on real workers, for tests: orchestrators and agents as tests/e2e/kit.py starts them.

    def test_something(cluster):
        c = cluster('''
            import muster
            run = muster.join()
            print('sum', run.allreduce(memoryview(bytearray(4)).cast('i'))[0])
        ''', 3)
        c.wait()
        assert c.lines('sum') == ['sum 0'] * 3

A script that trains has `from gate import gate` (worker/gate.py) and calls gate(step): then no step after
c.limit(step) is computed, and what a test does happens where it wants it, however fast either side is:

        c.limit(3)
        c.gather('a', 'b', 'c')     # Three train together, and stand before the same step.
        c.kill('b')
        c.limit()                   # Without end.

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
NO_LIMIT = 1 << 62
WORKER = os.path.join(HERE, 'worker')  # What scripts of tests can import.
FIRST_S = 120  # Against hanging only; many processes may import torch at the same time.
PREFIX = re.compile(r'^\[s?\d+\] ?', re.M)  # s: a slot that has no rank


def environment(**more):
    """For a script: the package of this build, and one thread."""
    return {'PYTHONPATH': PACKAGE + os.pathsep + WORKER, 'PYTHON_EXEC': PYTHON, 'PYTHONUNBUFFERED': '1', 'PYTHONDONTWRITEBYTECODE': '1',
            'OMP_NUM_THREADS': '1', **{name: str(value) for name, value in more.items()}}


def write_script(folder, text, name='script.py'):
    """A script of that text, or, if it is a path, that one."""
    if '\n' not in text:
        return os.path.join(ROOT, text)
    path = os.path.join(folder, name)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(textwrap.dedent(text))
    return path


def alone(script, args=(), timeout=600, check=True, python=PYTHON, **env):
    """A script by itself, without an agent: its CompletedProcess."""
    with kit.World() as world:
        done = subprocess.run([python, write_script(world.dir, script), *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, check=False,
                              timeout=timeout, env=world.env(**environment(**env)), cwd=world.dir)
    assert not kit.SANITIZER.search(done.stderr), done.stderr[-8000:]
    assert not check or done.returncode == 0, f'{done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}'
    return done


class Cluster:
    """An orchestrator and nodes with one worker each, called a, b, c … in the order of their start."""

    def __init__(self, world, script, workers=1, args=(), env=None, flags=(), serve=kit.SERVE, nnodes='1:8',
                 mode='inprocess', nproc=1, limit=NO_LIMIT):
        self.world = world
        self.dir = world.dir
        self.script = write_script(world.dir, script)
        self.args = tuple(map(str, args))
        self.flags = tuple(flags)
        self.audit_dir = os.path.join(world.dir, 'audit')
        os.mkdir(self.audit_dir)
        self.gate_dir = os.path.join(world.dir, 'gate')
        os.mkdir(self.gate_dir)
        self.limit(limit)
        self.env = environment(MUSTER_AUDIT=self.audit_dir, GATE_DIR=self.gate_dir, **(env or {}))
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
        """kill -9 of a whole node, agent and all, of which nothing is left then; its name."""
        name = self.name(who)
        self.nodes[name].kill9()
        kit.wait_until(lambda: not self.nodes[name].pids(), f'nothing was left of {name}')
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
            if number == signal.SIGKILL:
                kit.wait_until(lambda pid=pid: not kit.lives(pid), f'{pid} was gone')
        return name

    def drain(self, who):
        """Asks a node to leave; its name."""
        name = self.name(who)
        self.orchestrator.say('drain', name)
        return name

    # ---- where its scripts stop ----

    def limit(self, step=NO_LIMIT):
        """No step after that one is computed by scripts that call gate()."""
        self.step_limit = step
        path = os.path.join(self.gate_dir, 'limit')
        with open(path + '.new', 'w', encoding='ascii') as file:
            file.write(str(step))
        os.rename(path + '.new', path)

    def standing(self, generation=None):
        """Processes that wait now for the step after the limit, in that generation or any."""
        found = []
        for name in filter(str.isdigit, os.listdir(self.gate_dir)):
            where = kit._read(os.path.join(self.gate_dir, name)).decode().split()
            if where and int(where[0]) == self.step_limit + 1 and generation in (None, int(where[1])) \
                    and kit.lives(int(name)):
                found.append(int(name))
        return found

    def stand(self, n):
        """Waits until so many stand before the step after the limit."""
        kit.wait_until(lambda: len(self.standing()) >= n, f'{n} stood before step {self.step_limit + 1}', FIRST_S)

    def gather(self, *names):
        """Until exactly these nodes train together, and stand before the same step; the last step that is done.
        A newcomer is taken in when a step ends: so they are let go step by step, and only when that will help."""
        def look():
            status = self.job.status() or {'members': [], 'waiting': [], 'generation': 0}
            members = [one['node'] for one in status['members']]
            warm = [one['node'] for one in status['waiting'] if one['state'] == 'warm']
            in_it = self.standing(status['generation'])
            if sorted(members) == sorted(names) and len(in_it) >= len(names) * self.job.nproc:
                return True
            if set(names) <= set(members + warm) and (len(self.standing()) > len(in_it) or set(members) - set(names)):
                if self.standing():  # … in an older generation, or together with those who are to go.
                    self.limit(self.step_limit + 1)
            return False
        kit.wait_until(look, f'{names} stood before the same step', FIRST_S)
        return self.step_limit

    # ---- what they say ----

    def out(self, who=None):
        """What scripts have printed, without the ranks before each line."""
        names = list(self.nodes) if who is None else [self.name(who)]
        return ''.join(PREFIX.sub('', self.nodes[name].out()) for name in names)

    def lines(self, begin='', who=None):
        """Those of the lines that begin so, node by node."""
        return [line for line in self.out(who).splitlines() if line.startswith(begin)]

    def wait_lines(self, begin, n=1, who=None, timeout=FIRST_S):
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
