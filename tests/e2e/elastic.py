"""Jobs that train with mu_next(): programs/trainer.c, examples/fake, examples/mnist. What they say, which
samples counted (audit.py), and what one worker by itself ends with.

Nothing is to depend on how fast workers are: those of programs/trainer.c stop at a step (limit()), what is to
happen is made to happen while they stand there, and they go on when it has.

    job = elastic.Training(world, elastic.trainer(200), limit=0)
    job.start('a', 'b')
    job.made_by(2)                  # one step after the other, until one was made by two workers
    job.kill('b')                   # between two steps, and nothing of it lives any more
    job.made_by(1)
    job.limit(elastic.NO_LIMIT)
    job.ends_well('a')
"""
import contextlib
import os
import re
import signal
import struct
import subprocess
import threading
import time

import audit
import kit

PROGRAMS = os.path.abspath(os.environ.get('E2E_PROGRAMS', '.'))
TRAINER = os.path.join(PROGRAMS, 'trainer')
EXAMPLES = os.path.abspath(os.path.join(PROGRAMS, '../../examples'))
STEP = re.compile(r'step=(\d+) generation=(\d+) rank=(\d+) world=(\d+) samples=(\d+)')
DIGEST = re.compile(r'digest=([0-9a-f]+) steps=(\d+)')
HEARD = re.compile(r'heard=(\d+) saved=(\d+)')
NO_LIMIT = (1 << 63) - 1
TOGETHER = ('--lease', '10', '--join-window', '60')  # The first generation waits for the largest number of nodes.
RENEW = ('--monitor-interval', '0.2')  # The orchestrator hears of steps so often, whatever the lease.


class Model:
    """What is trained, and on what: the same words for all workers of a job."""

    def __init__(self, program, samples, batch, steps, *args, slices=8):
        self.program = program
        self.steps = steps
        self.walk = audit.Walk(samples, batch, slices)
        self.args = ('--steps', str(steps), '--global-batch', str(batch), '--slices', str(slices), *args)

    def alone(self):
        """The digest of one undisturbed worker without an agent."""
        return alone(self.program, self.args)


def trainer(steps, *args, samples=1000, batch=32, slices=8):
    return Model(TRAINER, samples, batch, steps, '--samples', str(samples), *args, slices=slices)


def mnist(steps, *args, batch=256):
    return Model(os.path.join(EXAMPLES, 'mnist'), 60000, batch, steps, '--hidden', '16', *args)


def fake(steps, *args, samples=1000, batch=256, slices=8):
    return Model(os.path.join(EXAMPLES, 'fake'), samples, batch, steps, '--samples', str(samples),
                 '--bytes', '64K', *args, slices=slices)


_alone = {}
_alone_lock = threading.Lock()


def alone(program, args):
    with _alone_lock:
        if (program, args) not in _alone:
            quick = [*args]
            for name in ('--sleep-us', '--sleep-ms'):  # It changes no bits, and nobody waits for it.
                if name in quick:
                    quick[quick.index(name) + 1] = '0'
            env = {name: os.environ[name] for name in kit.KEPT if name in os.environ}
            done = subprocess.run([program, *quick], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  text=True, check=False, timeout=600, env=env)
            assert done.returncode == 0, f'{program} alone: {done.returncode}, {done.stderr[-2000:]}'
            _alone[program, args] = digests(done.stdout)[-1]
        return _alone[program, args]


def digests(text):
    return [match.group(1) for match in DIGEST.finditer(text)]


class Training:
    """Nodes of one job that train one model."""

    def __init__(self, world, model, *flags, nnodes='1:8', nproc=1, serve=kit.SERVE, mode='inprocess',
                 limit=NO_LIMIT, **env):
        self.world = world
        self.model = model
        self.flags = (*RENEW, *flags)
        self.orchestrator = world.orchestrator(*serve)
        self.job = self.orchestrator.job(nnodes=nnodes, mode=mode, nproc=nproc)
        self.audit_dir = os.path.join(world.dir, 'audit')
        os.mkdir(self.audit_dir)
        self.limit_file = os.path.join(world.dir, 'limit')
        self.limit(limit)
        self.env = {'MUSTER_AUDIT': self.audit_dir, 'TRAINER_LIMIT': self.limit_file, **env}
        self.nodes = {}

    def spawn(self, name, flags=(), args=(), before=(), **env):
        self.nodes[name] = self.job.node(name, *self.flags, *flags, script=self.model.program,
                                         args=(*self.model.args, *args), before=before, **{**self.env, **env})

    def start(self, *names, **more):
        """One after the other, so that this is their order."""
        for name in names:
            self.spawn(name, **more)
            self.nodes[name].wait_log('in job ')

    def start_all(self, *names, **more):
        """At once, in any order."""
        for name in names:
            self.spawn(name, **more)
        for name in names:
            self.nodes[name].wait_log('in job ')

    def limit(self, step):
        """No slice of a step after that one is computed; in place, for it is mapped by the workers."""
        self.at = step
        with open(self.limit_file, 'r+b' if os.path.exists(self.limit_file) else 'wb') as file:
            file.write(struct.pack('<Q', step))

    def reach(self, step):
        """Lets it do the steps up to that one, and waits until somebody has."""
        self.limit(step)
        kit.wait_until(lambda: self.last() >= step, f'step {step} was done')

    def whole(self, step):
        """Whether everyone who made it has said so; how many these were. One that was left out at the end of that
        step may have heard so before it could show it."""
        found = [(generation, size) for number, generation, _, size in self.steps() if number == step]
        if not found:
            return 0
        generation, size = max(found)
        return size if len(found) >= size or self.only_left_out_lack(step, generation) else 0

    def only_left_out_lack(self, step, generation):
        now = self.job.status() or {}
        return now.get('generation', 0) > generation and all(
            any(number == step for number, *_ in self.steps(name)) for name in set(self.job.members()))

    def step_until(self, look, what):
        """One step after the other, each after everyone has done the last: until look() gives something true,
        which it returns. Then all stand still between two steps."""
        until, pause_s = time.monotonic() + kit.LONG_S, 0
        while True:
            found = look()
            if found:
                return found
            assert time.monotonic() < until, f'in {kit.LONG_S} s there was no step after which {what}'
            self.limit(self.at + 1)
            kit.wait_until(lambda: self.whole(self.at), f'step {self.at} was done')
            time.sleep(pause_s)
            pause_s = min(pause_s + kit.LOOK_S, 0.2)  # What is awaited needs some time, and not many steps.

    def trickle_until(self, look, what):
        """Lets a step go now and then until look() gives something true, whether anybody is left to do it or not."""
        def step():
            self.limit(self.at + 1)
            return look()
        kit.wait_until(step, what)

    def made_by(self, size):
        """One step after the other, until one was made by that many workers. Then they stand still."""
        self.step_until(lambda done=self.at: self.at > done and self.whole(self.at) == size,
                        f'{size} workers made a step')

    def kill(self, *names):
        """Agents, as kill -9 does; until nothing of these nodes lives."""
        for name in names:
            self.nodes[name].kill9()
        for name in names:
            kit.wait_until(lambda name=name: not self.nodes[name].pids(), f'nothing of {name} lived')

    def kill_workers(self, *names):
        """All of them, as kill -9 does, and at once: who they are is known before the first is killed."""
        for pid in [pid for name in names or self.nodes for pid in self.pids(name) if kit.lives(pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    # ---- what workers say ----

    def out(self):
        return ''.join(node.out() for node in self.nodes.values())

    def steps(self, *names):
        """(step, generation, rank, world) of each step that these nodes' workers saw committed."""
        return [tuple(map(int, match.groups()[:4])) for name in names or self.nodes
                for match in STEP.finditer(self.nodes[name].out())]

    def worlds(self):
        """By step: how many workers were in it, as each of them says."""
        found = {}
        for step, _, _, world in self.steps():
            found.setdefault(step, set()).add(world)
        return found

    def last(self, *names):
        """The newest step that a worker of these nodes has said."""
        return max((step for step, *_ in self.steps(*names)), default=0)

    def heard(self, name):
        """(the newest generation, saves that it has ended) as the node's worker last said at its limit."""
        return tuple(map(int, (HEARD.findall(self.nodes[name].out()) or [(0, 0)])[-1]))

    def pids(self, name):
        """Of the workers that this node has ever started."""
        return [int(pid) for pid in re.findall(r'pid=(\d+)', self.nodes[name].out())]

    def step(self):
        """How far it has come, as the orchestrator knows."""
        return (self.job.status() or {}).get('step', 0)

    def settled(self, *names):
        """Waits until a generation of exactly these nodes is active; its number."""
        def look():
            status = self.job.status() or {'members': []}
            there = {m['node'] for m in status['members']} == set(names)
            return there and status['active'] == status['generation'] and status['active']
        return kit.wait_until(look, f'a generation of {names} was active')

    # ---- its end ----

    def demand(self):
        """The digest of everyone who was there at the end is that of one worker alone, and each sample
        counted once."""
        found = digests(self.out())
        want = self.model.alone()
        assert found and set(found) == {want}, f'digests {found}, alone {want}'
        return audit.demand(self.audit_dir, self.model.walk, self.model.steps)

    def ends_well(self, *names):
        codes = {name: self.nodes[name].wait() for name in names or self.nodes}
        assert set(codes.values()) == {0}, codes
        return self.demand()
