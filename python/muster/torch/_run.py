"""A run that trains models of torch: what join() gives."""
from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import torch

from .. import run as _run
from .._state import State
from ._data import StepSampler, samples_of
from ._things import Things
from ._train import Loop

UNUSED = ('error', 'zero')
NONFINITE = ('pass', 'skip', 'stop')


class Run(_run.Run):
    """One worker that trains; muster.torch.join() makes it.

    skipped: how many steps were, because their gradient was not finite (nonfinite="skip")."""

    def __init__(self, things: Sequence[Any], metrics: str | Sequence[str], threads: int, nonfinite: str, unused: str,
                 overlap: bool, settings: dict[str, Any]) -> None:
        if isinstance(metrics, str):
            metrics = (metrics,)
        _one_of('nonfinite', nonfinite, NONFINITE)
        _one_of('unused', unused, UNUSED)
        things = Things(things)
        torch.set_num_threads(threads)
        super().__init__(**settings)
        self.state = State(things.values)
        try:
            self.loop = Loop(self.core, self.state, things, metrics, unused, nonfinite, overlap)
            for name, value in things.facts():
                self.core.fact(name, value)
            self.core.fact('torch.options', f'nonfinite={nonfinite} unused={unused}')
            for name, value in _numeric(threads):
                self.core.fact(name, value, numeric=True)
        except BaseException:
            self.stop()
            self.leave()
            raise

    @property
    def skipped(self) -> int:
        return self.loop.skipped

    def sampler(self, dataset: Any, global_batch: int, slices: int = 8, seed: int = 0) -> StepSampler:
        """For a DataLoader with processes of its own, which is given to epoch.steps(loader):
        DataLoader(dataset, batch_sampler=run.sampler(dataset, global_batch=256), num_workers=2)."""
        return StepSampler(samples_of(dataset), global_batch, slices, seed)

    def log(self, **numbers: float | torch.Tensor) -> None:
        """Numbers to be shown with the job. In the loop over a step's slices: of this slice, before step.backward();
        their mean over the step is in step.metrics; they are declared by join(…, metrics=…). Elsewhere: shown as
        they are, those of rank 0."""
        self.loop.log(numbers)


def _one_of(name: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f'{name}={value!r}: it is one of {", ".join(map(repr, choices))}')


def _numeric(threads: int) -> list[tuple[str, str]]:
    """What decides the bits of a gradient, beside the model."""
    found = [('torch.version', torch.__version__), ('torch.threads', str(threads)),
             ('torch.mkldnn', f'{torch.backends.mkldnn.is_available()}'),
             ('torch.deterministic', f'{torch.are_deterministic_algorithms_enabled()}')]
    text = torch.__config__.show()
    for name, pattern in (('torch.cpu', r'CPU capability usage: (\S+)'), ('torch.blas', r'BLAS_INFO=([^,\s]+)')):
        match = re.search(pattern, text)
        if match:
            found.append((name, match.group(1)))
    return found


def join(*things: Any, metrics: str | Sequence[str] = ('loss',), threads: int = 1, nonfinite: str = 'pass',
         unused: str = 'error', overlap: bool = True, **settings: Any) -> Run:
    """This process becomes a worker that trains these things: models, optimizers, schedulers and whatever else has
    state_dict() and load_state_dict(), in any order; and a dict of plain values, which is run.state then. They are
    the state of the run: at the first step they become what the others have, or what the newest checkpoint holds.

    metrics: names of numbers that come with each slice; "loss" is given by step.backward(), others by run.log().
    threads: of torch, in this process. The bits of a result depend on it; it must be the same for all workers.
    nonfinite: what all workers do about a step whose gradient has NaN or infinities: "pass" (nothing), "skip", "stop".
    unused: a parameter that the loss does not depend on is an "error", or its gradient is "zero".
    overlap: parts of the gradient travel while backward() computes the others.
    settings: as muster.join() has them, such as checkpoint_dir and checkpoint_every."""
    return Run(things, metrics, threads, nonfinite, unused, overlap, settings)
