"""The loop over steps for torch: models, gradients, buffers, randomness and data around _loop."""
from __future__ import annotations

from typing import Any

import torch
from torch.utils.data import DataLoader

from .. import _loop
from ._buffers import Buffers
from ._data import LoaderSource, Source, samples_of
from ._gradient import CORE_TYPES, Gradient
from ._random import AFTER, BEFORE, mix, seed_all


class Step(_loop.Step):
    """One update of the model: loop over it, step.backward(loss) for each batch, then update.

    After its loop .grad of the parameters is the committed mean over all samples of the step, on every worker the
    same. metrics, loss: their means. skipped: the gradient was not finite, and nonfinite="skip" was given to join();
    then .grad is None, and optimizers do nothing."""

    skipped: bool = False

    def backward(self, loss: torch.Tensor, **options: Any) -> None:
        """Computes the slice's gradient: once for each batch that the loop gives. loss: the mean over the batch.
        Options are those of torch.Tensor.backward()."""
        if not self._put_due:
            raise RuntimeError(f'step {self.number}: step.backward() was called twice for one slice, or outside of the '
                               'loop over slices; add losses up, and call it once')
        self._loop.backward(self, loss, options)


class Loop(_loop.Loop):
    step_type = Step
    put_name = 'step.backward()'

    def __init__(self, core, state, things, metrics, unused, nonfinite, overlap):
        super().__init__(core, state)
        self.things = things
        self.nonfinite = nonfinite
        self.skipped = 0
        self._kept = []
        self.logged = {}
        self.shown = {}       # metrics of the step that was committed last; none while one is computed
        self.current = None   # the step whose slice the user has
        self.source = None
        self.source_key = None
        self.grads = Gradient(things.params, unused, overlap)
        self.buffers = Buffers(things.buffers, self.grads.parts)
        self.metric(*metrics)
        self.places = [(name, tensor, tensor.data_ptr()) for name, tensor in things.tensors()]
        self.held = [tensor.detach() for _, tensor in things.tensors()]  # Their memory stays.

    # ---- before the first step ----

    def declare(self, data, global_batch=None, slices=None, seed=None, collate_fn=None):
        """steps(dataset, global_batch, slices=8, seed=0, collate_fn=None), or steps(loader)."""
        if isinstance(data, DataLoader):
            if (global_batch, slices, seed, collate_fn) != (None, None, None, None):
                raise TypeError('epoch.steps(loader) takes nothing else: run.sampler() was given global_batch, slices and '
                                'seed, and the DataLoader collate_fn')
            key = data
        else:
            if global_batch is None:
                raise TypeError('epoch.steps() needs global_batch: how many samples all workers together take for one '
                                'step')
            key = (data, global_batch, slices, seed, collate_fn)
        if self.source is None or not _alike(key, self.source_key):
            if self.source is not None:
                self.source.close()
            self.source = self._source(key)
            self.source_key = key
        return self.source.spec

    def _source(self, key):
        if isinstance(key, DataLoader):
            source = LoaderSource(key, self.core, self.epochs_n)
        else:
            dataset, global_batch, slices, seed, collate_fn = key
            spec = _loop.Spec(samples_of(dataset), global_batch, 8 if slices is None else slices, seed or 0)
            source = Source(dataset, spec, collate_fn)
        self.same(source.spec)
        return source

    def start(self, spec):
        self.things.keep(self)
        self.keep_calls('muster.torch', self._save, self._load)
        for part in self.grads.parts:
            self.gradient(part.count, CORE_TYPES[part.dtype])
        super().start(spec)
        self.grads.start(self.core)

    def _save(self):
        return self.skipped.to_bytes(8, 'little')

    def _load(self, data):
        self.skipped = int.from_bytes(data, 'little')

    # ---- steps ----

    def next(self):
        self.check_places()
        try:
            work = super().next()
        except SystemExit:
            self.source.close()
            raise
        if work is None:
            self.source.close()
        return work

    def freeze(self):
        super().freeze()
        self._kept = [(tensor, tensor.clone()) for tensor in self.held]

    def thaw(self):
        super().thaw()
        for tensor, kept in self._kept:
            tensor.copy_(kept)
        self._kept = []

    def close(self):
        """The run has been left: everything is as it was before it."""
        self.grads.close()
        if self.source is not None:
            self.source.close()

    def check_places(self):
        """State is where it was when it was named."""
        for name, tensor, place in self.places:
            if tensor.data_ptr() != place:
                raise RuntimeError(f'{name} lies elsewhere in memory than when muster.torch.join() was called (something '
                                   'like p.data = …, or model.to(…)): change values in place, p.data.copy_(…)')
        self.grads.check()

    def begin(self, step):
        seed_all(mix(self.spec.seed, BEFORE, step.number))

    def slice(self, step, work):
        batch = self.source.batch(work)
        self.outs = work.outs
        self.grads.begin(work.outs)
        self.buffers.begin()
        self.logged = {}
        self.shown = {}
        self.current = step
        seed_all(work.seed)
        return batch

    def backward(self, step, loss, options):
        loss.backward(**options)
        if 'loss' in self.metrics:
            self.logged.setdefault('loss', float(loss.detach()))
        missing = [name for name in self.metrics if name not in self.logged]
        if missing:
            raise RuntimeError(f'step {step.number}: {missing[0]!r} is one of the metrics of this run, but was not logged '
                               f'in this slice: run.log({missing[0]}=…) before step.backward()')
        self.grads.finish()
        self.buffers.give(self.outs)
        self.current = None
        step._put(self.logged)

    def commit(self, step, work):
        super().commit(step, work)
        self.shown = step.metrics
        step.gradient = None  # It is in .grad.
        self.grads.commit(work.gradients)
        bad = self.grads.nonfinite() if self.nonfinite != 'pass' else None
        if bad is not None and self.nonfinite == 'stop':
            raise FloatingPointError(f'step {step.number}: the gradient of {bad} is not finite (loss '
                                     f'{step.metrics.get("loss")}); nonfinite="stop" was given to muster.torch.join()')
        if bad is None:
            self.buffers.commit()
        else:
            self.grads.clear()
            self.skipped += 1
            step.skipped = True
        seed_all(mix(self.spec.seed, AFTER, step.number))

    def nothing(self, step):
        self.grads.clear()

    # ---- numbers to be shown ----

    def log(self, numbers):
        if self.current is None:
            for name, value in numbers.items():
                if name not in self.metrics:
                    self.core.log(name, float(value))
                elif repr(self.shown.get(name)) != repr(float(value)):  # Else it is what is shown. NaN is NaN here.
                    raise RuntimeError(f'{name!r} is one of the metrics of each slice: log it in the loop over a step\'s '
                                       'slices, before step.backward(), or another number by another name')
            return
        for name, value in numbers.items():
            if name not in self.metrics:
                raise ValueError(f'{name!r} is logged in a slice, but is not one of the metrics of this run '
                                 f'({", ".join(self.metrics) or "none"}): declare it by muster.torch.join(…, '
                                 f'metrics=("loss", "{name}"))')
            self.logged[name] = float(value.detach() if isinstance(value, torch.Tensor) else value)


def _alike(a, b):
    if isinstance(a, DataLoader) or isinstance(b, DataLoader):
        return a is b
    return a[0] is b[0] and a[1:] == b[1:]
