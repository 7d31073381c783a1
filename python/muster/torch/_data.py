"""Where batches come from: a dataset, or a DataLoader around one.

A slice's samples are numbered by the core; each is fetched with randomness of its own, (seed, epoch, position), so
that it is the same whoever fetches it, in whatever process, and in whatever order."""
import collections

import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from .._loop import Spec
from ._random import SAMPLE, mix, seed_all


class Seeded(torch.utils.data.Dataset):
    """A dataset whose items are asked for as (number, epoch, position)."""

    def __init__(self, dataset, seed):
        self.dataset = dataset
        self.seed = seed

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, key):
        number, epoch, position = key
        seed_all(mix(self.seed, SAMPLE, epoch, position))
        return self.dataset[number]


class StepSampler:
    """The batch sampler of a DataLoader for epoch.steps(): made by run.sampler()."""

    def __init__(self, samples_n, global_batch, slices, seed):
        self.spec = Spec(samples_n, global_batch, slices, seed)

    def __len__(self):
        return self.spec.steps

    def __iter__(self):
        raise RuntimeError('this DataLoader is for epoch.steps(loader), which knows what this worker computes: don\'t '
                           'loop over it yourself')


def samples_of(dataset):
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, '__getitem__'):
        raise TypeError(f'{type(dataset).__name__} can\'t be trained on: samples are asked for by number, so a dataset '
                        'must have __getitem__() and __len__()')
    try:
        return len(dataset)
    except TypeError:
        raise TypeError(f'{type(dataset).__name__} can\'t be trained on: it has no __len__()') from None


class Source:
    """Batches of a dataset, fetched when they are due."""

    def __init__(self, dataset, spec, collate_fn=None):
        self.spec = spec
        self.collate_fn = collate_fn or default_collate
        self.tensors = None
        if type(dataset) is TensorDataset and collate_fn is None:
            self.tensors = dataset.tensors  # Nothing is random in it, and it can be asked for all at once.
        self.dataset = Seeded(dataset, spec.seed)

    def batch(self, work):
        if self.tensors is not None:
            index = torch.tensor(work.samples)
            return [tensor[index] for tensor in self.tensors]
        return self.collate_fn([self.dataset[key] for key in keys_of(work.epoch, work.samples, work.position)])


    def close(self):
        pass


def keys_of(epoch, samples, position):
    return [(number, epoch, position + i) for i, number in enumerate(samples)]


class LoaderSource:
    """Batches of a DataLoader like the user's one, whose processes fetch them before they are due.

    Which slices will be this worker's is a guess: the same ones as in the last step. When another comes, what was
    fetched is thrown away."""

    def __init__(self, loader, core, epochs):
        sampler = loader.batch_sampler
        if not isinstance(sampler, StepSampler):
            raise TypeError('epoch.steps() takes a DataLoader that was made as DataLoader(dataset, batch_sampler='
                            'run.sampler(dataset, global_batch=…, slices=…, seed=…), …)')
        if sampler.spec.samples_n != samples_of(loader.dataset):
            raise ValueError(f'the sampler was made for {sampler.spec.samples_n} samples, and the dataset has '
                             f'{len(loader.dataset)}')
        self.user = loader
        self.spec = sampler.spec
        self.core = core
        self.last = epochs * self.spec.steps if epochs else None
        self.pattern = []       # slices of this worker in the step before …
        self.current = []       # … and in this one, so far
        self.step = 0
        self.due = collections.deque()  # (step, slice) of what has been asked for
        self.start = None
        self.batches = None
        options = {'num_workers': loader.num_workers, 'collate_fn': loader.collate_fn,
                   'pin_memory': loader.pin_memory, 'timeout': loader.timeout,
                   'worker_init_fn': loader.worker_init_fn,
                   'multiprocessing_context': loader.multiprocessing_context,
                   'generator': torch.Generator()}  # The default one is not to be disturbed.
        if loader.num_workers:
            options.update(persistent_workers=True, prefetch_factor=loader.prefetch_factor)
        self.loader = DataLoader(Seeded(loader.dataset, self.spec.seed), batch_sampler=_Feed(self), **options)

    def guess(self):
        """(step, slice, epoch, samples, position) of what comes, as far as it can be guessed."""
        step, first = self.start
        pattern = self.pattern
        todo = pattern[pattern.index(first):] if first in pattern else [first]
        while self.last is None or step <= self.last:
            for number in todo:
                samples, position = self.core.samples(step, number)
                if samples:
                    yield step, number, (step - 1) // self.spec.steps, samples, position
            step, todo = step + 1, pattern

    def note(self, work):
        """Learns which slices are this worker's."""
        if work.step != self.step:
            if self.current:
                self.pattern = self.current
            else:
                share = max(1, self.spec.slices // work.world)
                self.pattern = list(range(work.slice, min(work.slice + share, self.spec.slices)))
            self.step, self.current = work.step, []
        self.current.append(work.slice)
        if work.slice not in self.pattern:
            self.pattern = [*self.current]

    def batch(self, work):
        self.note(work)
        wanted = (work.step, work.slice)
        if self.batches is None or not self.due or self.due[0] != wanted:
            self.restart(wanted)
        try:
            found = next(self.batches)
        except StopIteration:
            self.restart(wanted)
            found = next(self.batches)
        if self.due.popleft() != wanted:
            raise RuntimeError('a batch came that was not asked for')
        return found

    def close(self):
        """Its processes end."""
        self.batches = None
        self.loader = None

    def restart(self, wanted):
        self.due.clear()
        self.start = wanted
        self.batches = None
        self.batches = iter(self.loader)


class _Feed:
    """The batch sampler of the loader inside."""

    def __init__(self, source):
        self.source = source

    def __iter__(self):
        for step, number, epoch, samples, position in self.source.guess():
            self.source.due.append((step, number))
            yield keys_of(epoch, samples, position)

    def __len__(self):
        return 1 << 62
