"""Jobs that train and save: what is in their folder, what is done to it, and what the logs say of it."""
import os
import re
import subprocess
import tempfile

import elastic
import kit

SLOWSYNC = os.path.join(elastic.PROGRAMS, 'libslowsync.so')
CHUNK = 4 << 20
TAKEOVER = re.compile(r'takeover: generation (\d+) starts from (?:step (\d+)|what its nodes have saved)')
RESTORED = re.compile(r'checkpoint: step (\d+) \(epoch \d+\) is restored from')
SAVED = re.compile(r'checkpoint: step (\d+) is saved: .* by (\d+) worker')


def small(steps, *args):
    """A few KB: one chunk, one writer."""
    return elastic.trainer(steps, *args)


def large(steps, *args, count=1_100_000):
    """Three chunks, which are written side by side; little work."""
    return elastic.trainer(steps, '--count', str(count), *args, samples=100, batch=4, slices=4)


class Saving(elastic.Training):
    """Nodes that save into one folder. A folder that is there before, and stays, may be given."""

    def __init__(self, world, model, *flags, every=5, folder=None, restarts=1000, **more):
        self.folder = folder or os.path.join(world.dir, 'ckpt')
        self.every = every
        super().__init__(world, model, '--max-restarts', str(restarts), '--ckpt-every', str(every), *flags,
                         **more)

    def spawn(self, name, flags=(), folder=None, **more):
        super().spawn(name, flags=('--ckpt-dir', folder or self.folder, *flags), **more)

    # ---- what is said ----

    def logs(self, *names):
        return ''.join(self.nodes[name].log() for name in names or self.nodes)

    def saved(self):
        """Steps that a worker said are saved, as it came; and by how many."""
        return [tuple(map(int, found)) for found in SAVED.findall(self.logs())]

    def restored(self):
        """Steps that a worker said it has read."""
        return [int(step) for step in RESTORED.findall(self.logs())]

    def takeovers(self):
        """(generation, step that it starts from) as the orchestrator said; 0: it knew of none."""
        return [(int(number), int(step or 0)) for number, step in TAKEOVER.findall(self.orchestrator.log())]

    def first_after(self, generation):
        """The first step that was done from that generation on; 0: none was."""
        return min((step for step, number, _, _ in self.steps() if number >= generation), default=0)

    def wait_saved(self, step):
        """Until the orchestrator knows of it: whoever wrote it says so when the next one can be written."""
        self.orchestrator.wait_log(f"job '{self.job.name}': step {step} is saved")

    def save_upto(self, step, after=0, then=None):
        """Each that is to be saved, up to that one, is there before the next one is: then none is left out because
        the one before it is still being written. Workers tell each other of their shards while they train, so
        each takes a step or two more. Then it may go on to another limit."""
        for one in range(after + self.every, step + 1, self.every):
            self.limit(one)
            self.step_on(lambda one=one: f"job '{self.job.name}': step {one} is saved" in self.orchestrator.log(),
                         f'step {one} was saved', one + self.every - 1)
        self.limit(max(self.at, step) if then is None else then)

    def step_on(self, look, what, last):
        """One step more now and then, none after `last`, until look() gives something true."""
        def step():
            if self.last() >= self.at:
                self.limit(min(self.at + 1, last))
            return look()
        kit.wait_until(step, what)

    # ---- what is done ----

    def kill_nodes(self, *names):
        for name in names or list(self.nodes):
            self.nodes[name].kill9()

    # ---- its end ----

    def demand_digest(self):
        """A step may have been done several times: the digest tells whether it was the same."""
        found = elastic.digests(self.out())
        want = self.model.alone()
        assert found and set(found) == {want}, f'digests {found}, undisturbed {want}'

    def ends_the_same(self, *names):
        codes = {name: self.nodes[name].wait() for name in names or self.nodes}
        assert set(codes.values()) == {0}, codes
        self.demand_digest()


def went_back(job, takeovers_n):
    """Waits for that takeover, and for a step after it; the step that it went back to, as was said."""
    kit.wait_until(lambda: len(job.takeovers()) >= takeovers_n, f'there were {takeovers_n} takeovers')
    generation, told = job.takeovers()[takeovers_n - 1]
    first = kit.wait_until(lambda: job.first_after(generation), f'a step was done from generation {generation} on')
    later = [step for _, step in job.takeovers()[takeovers_n:]]  # Those it was formed of died in the same kill.
    if first - 1 not in (told, *later):  # It was saved, and nobody could tell any more.
        assert f'starts from step {first - 1}\n' in job.logs(), (generation, told, first)
    assert (first - 1) % job.every == 0, (generation, told, first)
    return first - 1


# ---- a folder ----

def new_folder():
    """One that outlives clusters; a context."""
    return tempfile.TemporaryDirectory(prefix='mu-ckpt-')


def names_in(folder, job='default'):
    try:
        return sorted(os.listdir(os.path.join(folder, job)))
    except FileNotFoundError:
        return []


def steps_in(folder, job='default'):
    return [int(name[len('step-'):]) for name in names_in(folder, job) if name.startswith('step-')]


def left_in(folder, job='default'):
    """What is being written, is about to go, or was left behind."""
    return [name for name in names_in(folder, job) if not name.startswith(('step-', '.folder-'))]


def path_of(folder, step, *more, job='default'):
    return os.path.join(folder, job, f'step-{step:012}', *more)


def shards_of(folder, step, job='default'):
    return sorted(name for name in os.listdir(path_of(folder, step, job=job)) if name.startswith('shard-'))


def contents(folder):
    """Every file below it, and what is in it."""
    found = {}
    for where, _, files in os.walk(folder):
        for name in files:
            with open(os.path.join(where, name), 'rb') as file:
                found[os.path.join(where, name)] = file.read()
    return found


def cut(path):
    os.truncate(path, os.path.getsize(path) // 2)


def verify(folder, job='default', every=True):
    """`muster ckpt verify`: (exit code, what it said)."""
    done = subprocess.run([kit.MUSTER, 'ckpt', 'verify', folder, job, *(['--all'] if every else [])],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=kit.LONG_S)
    return done.returncode, done.stdout


def demand_intact(folder, job='default'):
    code, said = verify(folder, job)
    assert code == 0, said


class SlowDisk:
    """What is saved takes a while: somebody can be killed meanwhile."""

    def __init__(self, world):
        self.path = os.path.join(world.dir, 'slow')
        self.env = {'LD_PRELOAD': SLOWSYNC, 'SLOWSYNC_FILE': self.path}
        self.set_ms(0)

    def set_ms(self, ms):
        with open(self.path, 'w', encoding='ascii') as file:
            file.write(str(ms))


def attempt_begun(folder, step, writers=2):
    """Waits until that step is being saved by at least so many writers; the folder's name."""
    def look():
        for name in left_in(folder):
            if name.startswith(f'.step-{step:012}.') and '_' not in name and \
                    len(os.listdir(os.path.join(folder, 'default', name))) >= writers:
                return name
        return None
    return kit.wait_until(look, f'step {step} was being saved')
