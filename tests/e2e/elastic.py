"""Jobs that train with mu_next(): programs/trainer.c, examples/fake, examples/mnist. What they say, which
samples counted (audit.py), and what one worker by itself ends with."""
import os
import re
import struct
import subprocess
import threading

import audit
import kit

PROGRAMS = os.path.abspath(os.environ.get('E2E_PROGRAMS', '.'))
TRAINER = os.path.join(PROGRAMS, 'trainer')
EXAMPLES = os.path.abspath(os.path.join(PROGRAMS, '../../examples'))
SERVE = ('--lease', '2', '--join-window', '0.2')
STEP = re.compile(r'step=(\d+) generation=(\d+) rank=(\d+) world=(\d+) samples=(\d+)')
DIGEST = re.compile(r'digest=([0-9a-f]+) steps=(\d+)')
NO_LIMIT = (1 << 63) - 1


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

    def __init__(self, world, model, *flags, nnodes='1:8', nproc=1, serve=SERVE, mode='inprocess', **env):
        self.world = world
        self.model = model
        self.flags = flags
        self.orchestrator = world.orchestrator(*serve)
        self.job = self.orchestrator.job(nnodes=nnodes, mode=mode, nproc=nproc)
        self.audit_dir = os.path.join(world.dir, 'audit')
        os.mkdir(self.audit_dir)
        self.limit_file = os.path.join(world.dir, 'limit')
        self.limit(NO_LIMIT)
        self.env = {'MUSTER_AUDIT': self.audit_dir, 'TRAINER_LIMIT': self.limit_file, **env}
        self.nodes = {}

    def start(self, *names, flags=(), args=(), before=(), **env):
        """One after the other, so that this is their order."""
        for name in names:
            self.nodes[name] = self.job.node(name, *self.flags, *flags, script=self.model.program,
                                             args=(*self.model.args, *args), before=before,
                                             **{**self.env, **env})
            self.nodes[name].wait_log('in job ')

    def limit(self, step):
        """No slice of a step after that one is computed; in place, for it is mapped by the workers."""
        with open(self.limit_file, 'r+b' if os.path.exists(self.limit_file) else 'wb') as file:
            file.write(struct.pack('<Q', step))

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

    def trained(self, world, n=3, after=0):
        """Waits until that many workers have together done n steps after that step; the last of them."""
        def look():
            steps = sorted({step for step, _, _, size in self.steps() if size == world and step > after})
            return steps[n - 1] if len(steps) >= n else None
        return kit.wait_until(look, f'{world} workers did {n} steps after step {after}')

    def pids(self, name):
        """Of the workers that this node has ever started."""
        return [int(pid) for pid in re.findall(r'pid=(\d+)', self.nodes[name].out())]

    def step(self):
        """How far it has come, as the orchestrator knows."""
        return (self.job.status() or {}).get('step', 0)

    def goes_on(self, n=5):
        before = self.step()
        kit.wait_until(lambda: self.step() >= before + n, f'{n} steps after step {before} were done')

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
