"""Epochs, steps and slices: how a run goes through its data. Knows no framework.

    for epoch in run.epochs(3):
        for step in epoch.steps(samples_n, global_batch=256):
            for part in step:                      # this worker's slices
                part.gradient …; part.put(loss=…)
            update(step.gradient)                  # the step is committed

The loops have the shape of the user's program, and are driven by next() of the core alone. What
follows from that:

- An epoch ends by arithmetic, not by next(): what the user does at its end still belongs to its last
  step, and is part of the state that newcomers get.
- The state may be replaced inside of next(): in a newcomer; in a worker that was left out for a while;
  when all go back to a checkpoint. Then what comes next is of another step, perhaps of another epoch.
  Nothing of the user's may run in between (it would change the new state), so the loops don't end: the
  step that the user is in becomes that other one, and so does the epoch.
- Done ends all loops quietly: there are no more slices, and the gradient of a step that was not
  committed does no harm. What the user's program still does on its way out, such as a scheduler's step at the
  end of an epoch that was not finished, is undone at the end of the loops.
- Left ends the program, by SystemExit(0): what stands behind the loops is for a model that is trained to its
  end, which this worker's is not.
"""
import math

from . import _muster
from .errors import Done, Left

SLICES_MAX = 1024


class Spec:
    """What is trained on; the same in every epoch, and for all workers."""

    def __init__(self, samples_n, global_batch, slices, seed):
        self.samples_n = _count('the number of samples', samples_n)
        self.global_batch = _count('global_batch', global_batch)
        self.slices = _count('slices', slices)
        self.seed = _count('seed', seed, least=0)
        if self.slices > SLICES_MAX or self.slices & (self.slices - 1):
            raise ValueError(f'slices={slices}: it must be a power of two up to {SLICES_MAX}')
        if self.global_batch % self.slices:
            raise ValueError(f'global_batch={global_batch} is not a multiple of slices={slices}: every step\'s '
                             'batch is cut into that many slices of the same size')
        self.steps = -(-self.samples_n // self.global_batch)

    def key(self):
        return (self.samples_n, self.global_batch, self.slices, self.seed)

    def __str__(self):
        return (f'{self.samples_n} samples, global_batch={self.global_batch}, slices={self.slices}, '
                f'seed={self.seed}')


def _count(name, value, least=1):
    try:
        number = value.__index__()
    except AttributeError:
        raise TypeError(f'{name} must be a number, not {value!r}') from None
    if not least <= number < 1 << 64:
        raise ValueError(f'{name} is {number}: it must be at least {least}')
    return number


class Slice:
    """A part of a step's batch that this worker computes.

    samples: their numbers. seed: for whatever is random in it. gradient: memory to be filled with the mean
    gradient of these samples (a tuple, if it was declared in several parts)."""

    def __init__(self, step, work):
        self._step = step
        self.number = work.slice
        self.samples = work.samples
        self.position = work.position
        self.seed = work.seed
        outs = work.outs
        self.gradient = outs[0] if len(outs) == 1 else outs

    def put(self, **metrics):
        """The gradient is there, and these are the means of the declared metrics."""
        self._step._put(metrics)


class _NoWork:
    """In the place of work, for the one step of an epoch that a worker enters when there is nothing left to do."""

    kind = 'none'

    def __init__(self, step):
        self.step = step


class Step:
    """One update of the model. After its loop: gradient, metrics, and number, from 1.

    If the run ends in it, for this worker or for all, it is not committed: there are no more slices, the gradient is
    zero, the metrics are NaN."""

    def __init__(self, loop, work):
        self._loop = loop
        self._work = work
        self._entered = False
        self._put_due = False
        self.number = work.step
        self.committed = False
        self.gradient = None
        self.metrics = {}

    def __iter__(self):
        if self._entered:
            raise RuntimeError('the slices of a step can be looped over once only')
        self._entered = True
        loop = self._loop
        work = self._work
        while work.kind == 'slice':
            self.number = work.step
            self._put_due = True
            yield loop.slice(self, work)
            if self._put_due:
                raise RuntimeError(f'step {self.number}: {loop.put_name} was not called for a slice: each slice '
                                   'that the loop gives must be answered before the next')
            work = loop.next()
            if work is None:
                break
        if work is None or work.kind == 'none':
            self.gradient = loop.nothing(self)
            self.metrics = dict.fromkeys(loop.metrics, math.nan)
            return
        self._work = work
        self.number = work.step
        loop.commit(self, work)
        self.committed = True

    @property
    def loss(self):
        """The mean loss of the step, if "loss" is one of the metrics."""
        if 'loss' not in self.metrics:
            raise AttributeError('there is no loss: the step is not committed yet, or "loss" is not one of the '
                                 'metrics of this run')
        return self.metrics['loss']

    def _put(self, metrics):
        if not self._put_due:
            raise RuntimeError(f'step {self.number}: {self._loop.put_name} was called twice for one slice, or '
                               'outside of the loop over slices')
        self._put_due = False
        self._loop.put(metrics)

    def __repr__(self):
        return f'<step {self.number}{", committed" if self.committed else ""}>'


class Epoch:
    """One way through all samples."""

    def __init__(self, loop, number):
        self._loop = loop
        self._number = number
        self._entered = False
        self.finished = False

    @property
    def number(self):
        """From 0. Not known before steps() in a worker's first epoch: it is the one that the others are in."""
        if self._number is None:
            raise RuntimeError('the number of this epoch is not known yet: a worker learns by its first step in '
                               'which epoch the others are; ask inside of the loop over epoch.steps()')
        return self._number

    def steps(self, *args, **kwargs):
        """The steps of this epoch: steps(samples, global_batch, slices=8, seed=0)."""
        spec = self._loop.declare(*args, **kwargs)
        if self._entered:
            raise RuntimeError('epoch.steps() was called twice in one epoch')
        self._entered = True
        return self._walk(spec)

    def _walk(self, spec):
        loop = self._loop
        work = loop.first(spec)
        if work is None:
            # What the user does at the end of an epoch may ask for the last step's numbers.
            self._number = loop.last_epoch(spec)
            yield loop.step_type(loop, _NoWork(loop.core.training()['step']))
        while work is not None:
            self._number = work.epoch
            step = loop.step_type(loop, work)
            loop.begin(step)
            yield step
            if loop.ended:
                break
            if not step.committed:
                raise RuntimeError(f'step {step.number} was not finished: loop over its slices to their end (there '
                                   'may be none, and the loop must be there all the same)')
            self._number = step._work.epoch
            if step.number % spec.steps == 0:
                self.finished = True
                loop.away()
                return
            work = loop.next()
        self.finished = True

    def __index__(self):
        return self.number

    def __str__(self):
        return str(self.number)

    def __repr__(self):
        return f'<epoch {"?" if self._number is None else self._number}>'


class Loop:
    """The loops of one run. core: _muster.Run. state: run.state, or None."""

    step_type = Step
    put_name = 'put()'

    def __init__(self, core, state=None):
        self.core = core
        self.state = state
        self.done = False
        self.left = False
        self.spec = None
        self.work = None       # what next() gave and nobody has taken yet
        self.rank = None       # as the last work said; -1: this worker has left
        self.size = None
        self.epochs_n = None
        self.gradients = []    # (count, dtype), …
        self.metrics = []
        self._frozen = []
        self._calls = []       # (name, save, load)

    @property
    def ended(self):
        return self.done or self.left

    # ---- what is declared before the first step ----

    def check_open(self, what):
        if self.spec is not None:
            raise RuntimeError(f'{what} after the first step: whatever belongs to a run is named before it begins')

    def gradient(self, count, dtype):
        """Another part of the gradient: count elements."""
        self.check_open('a gradient was declared')
        self.gradients.append((count, dtype))

    def metric(self, *names):
        """Numbers that come with every slice."""
        self.check_open('a metric was declared')
        self.metrics += [name for name in names if name not in self.metrics]

    def keep(self, name, memory):
        """State in one place."""
        self.check_open(f'state {name!r} was added')
        self.core.state(name, memory)

    def keep_calls(self, name, save, load):
        """State that is made into bytes, and from them."""
        self.check_open(f'state {name!r} was added')
        self.core.state_calls(name, save, load)
        self._calls.append((save, load))

    def declare(self, samples, global_batch, slices=8, seed=0):
        """What steps() was given, as a Spec."""
        samples_n = samples if hasattr(samples, '__index__') else len(samples)
        return self.same(Spec(samples_n, global_batch, slices, seed))

    def same(self, spec):
        if self.spec is not None and spec.key() != self.spec.key():
            raise ValueError(f'epoch.steps() was called with {spec}, and before that with {self.spec}: it must be the '
                             'same in every epoch')
        return spec

    def start(self, spec):
        """Everything is named: from now on only steps are made."""
        if not self.gradients:
            raise RuntimeError('there is no gradient: say how many numbers it has by run.gradient(count, dtype)')
        if self.state is not None:
            self.keep_calls('run.state', self.state.save, self.state.load)
        for count, dtype in self.gradients:
            self.core.gradient(count, dtype)
        for name in self.metrics:
            self.core.metric(name)
        self.core.slices(spec.slices)
        self.core.data(spec.samples_n, spec.global_batch, self.epochs_n, spec.seed)
        self.spec = spec

    # ---- the loops ----

    def epochs(self, n=None):
        """As many epochs as are left of n; None: without end."""
        count = 0 if n is None else _count('the number of epochs', n)
        if self.epochs_n is not None and not self.ended:
            raise RuntimeError('run.epochs() was called twice: a run has one loop over its epochs')
        self.epochs_n = count
        return self._walk(count)

    def _walk(self, count):
        number = None
        while not self.ended:
            epoch = Epoch(self, number)
            yield epoch
            if self.ended:
                break
            if not epoch.finished:
                raise RuntimeError('the loop over epoch.steps() was not finished: break out of it only to break out of '
                                   'the loop over epochs, too')
            number = epoch.number + 1
            if number == count:
                self.work = self.next()  # Done; or all go back to a checkpoint, and there is more to do.
                number = self.work.epoch if self.work is not None else number
        self.thaw()

    def first(self, spec):
        """The work that an epoch begins with."""
        if self.ended:
            return None
        if self.spec is None:
            self.start(spec)
        work, self.work = self.work, None
        return work if work is not None else self.next()

    def next(self):
        """What to do next; None: nothing any more. SystemExit: this worker was to leave."""
        try:
            work = self.core.next()
        except Done:
            self.done = True
        except Left:
            self.left = True
            self.rank = -1
            raise SystemExit(0) from None
        else:
            self.rank = work.rank
            self.size = work.world
            return work
        self.freeze()
        return None

    def last_epoch(self, spec):
        """The one that a run ended in of which this worker saw no step."""
        if self.done and self.epochs_n:
            return self.epochs_n - 1
        return max(0, self.core.training()['step'] - 1) // spec.steps

    def freeze(self):
        """The state is the last one. What the user's program still does to it is undone by thaw()."""
        self._frozen = [(load, bytes(save())) for save, load in self._calls]

    def thaw(self):
        for load, data in self._frozen:
            load(memoryview(data))
        self._frozen = []

    def away(self):
        self.core.away()

    # ---- for frameworks to replace ----

    def close(self):
        """The run has been left."""

    def begin(self, step):
        """The user gets that step."""

    def slice(self, step, work):
        """What the user gets of a slice."""
        return Slice(step, work)

    def put(self, metrics):
        missing = [name for name in self.metrics if name not in metrics]
        if missing or len(metrics) > len(self.metrics):
            wrong = missing or [name for name in metrics if name not in self.metrics]
            raise ValueError(f'put(): {wrong[0]!r} is {"missing" if missing else "not one of the metrics of this run"} '
                             f'(they are: {", ".join(self.metrics) or "none"})')
        self.core.put([float(metrics[name]) for name in self.metrics])

    def commit(self, step, work):
        """The step is committed: what the user gets of it."""
        step.gradient = work.gradients[0] if len(work.gradients) == 1 else work.gradients
        step.metrics = dict(zip(self.metrics, work.metrics))

    def nothing(self, step):
        """The loops end inside of a step: a gradient that does no harm."""
        sizes = {_muster.F64: 8, _muster.BF16: 2, _muster.F16: 2}
        zeros = tuple(bytes(count * sizes.get(dtype, 4)) for count, dtype in self.gradients)
        return zeros[0] if len(zeros) == 1 else zeros
