"""Where batches come from: datasets and DataLoaders give the same, whoever fetches them."""
import random

import numpy
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

import torch_kit as kit
from torch_kit import joined, muster


class Noisy(Dataset):
    """Everything that is usual in augmentation."""

    def __len__(self):
        return 48

    def __getitem__(self, i):
        return {'x': torch.rand(3) + i, 'noise': torch.tensor([random.random(), numpy.random.rand()]), 'i': i}


def batches(make, epochs=2, collate=None):
    """All that the loop gives; make(run): what steps() is given."""
    net = nn.Linear(3, 1)
    found = []
    with joined(net) as run:
        data, options = make(run)
        for epoch in run.epochs(epochs):
            for step in epoch.steps(data, **options):
                for batch in step:
                    found.append((step.number, batch['i'].tolist(), batch['x'].tolist(), batch['noise'].tolist(),
                                  float(torch.rand(()))))
                    step.backward(net(batch['x']).mean())
    return found


def loader(workers, **options):
    def make(run):
        return DataLoader(Noisy(), batch_sampler=run.sampler(Noisy(), global_batch=16, slices=4, seed=5), num_workers=workers,
                          **options), {}
    return make


def test_loaders_with_any_number_of_processes_give_what_the_dataset_gives():
    want = batches(lambda run: (Noisy(), {'global_batch': 16, 'slices': 4, 'seed': 5}))
    assert len(want) == 2 * 3 * 4
    assert sorted(i for one in want[:12] for i in one[1]) == list(range(48))
    assert batches(loader(0)) == want
    assert batches(loader(2)) == want
    assert batches(loader(1, prefetch_factor=5, persistent_workers=True)) == want


def test_a_smaller_last_step_with_empty_slices_is_fetched_too():
    def with_50(workers):
        def make(run):
            data = Noisy()
            data.__class__ = type('Noisy50', (Noisy,), {'__len__': lambda self: 50})
            if workers is None:
                return data, {'global_batch': 16, 'slices': 4, 'seed': 5}
            return DataLoader(data, batch_sampler=run.sampler(data, 16, slices=4, seed=5), num_workers=workers), {}
        return make
    want = batches(with_50(None))
    assert sorted(i for one in want for i in one[1]) == sorted([*range(50), *range(50)])
    assert batches(with_50(2)) == want


def test_collate_fn_and_worker_init_fn_are_the_users():
    def collate(items):
        return {'i': torch.tensor([item['i'] for item in items]), 'x': torch.stack([item['x'] for item in items]) * 2,
                'noise': torch.zeros(1)}
    one = batches(lambda run: (Noisy(), {'global_batch': 16, 'slices': 4, 'seed': 5, 'collate_fn': collate}))
    two = batches(loader(2, collate_fn=collate, worker_init_fn=lambda number: random.seed(number)))
    assert one == two and one[0][3] == [0.0]


def test_a_tensor_dataset_gives_the_same_at_once_as_one_by_one():
    class OneByOne(Dataset):
        def __init__(self, inner):
            self.inner = inner

        def __len__(self):
            return len(self.inner)

        def __getitem__(self, i):
            return self.inner[i]
    data = kit.dataset(48)
    nets = []
    for given in (data, OneByOne(data)):
        net = kit.model()
        kit.train(net, data=given, global_batch=12)
        nets.append(net)
    assert kit.same_bits(*nets)


def test_a_guess_that_was_wrong_costs_nothing_but_time():
    """Slices that come in another order than was guessed, as after a loss or a join."""
    from muster.torch._data import LoaderSource, Source

    class Core:
        def samples(self, step, number):
            at = ((step - 1) % 3) * 16 + number * 4
            return [i * 7 % 48 for i in range(at, at + 4)], at

    class Work:
        world = 2

        def __init__(self, step, number):
            self.step, self.slice, self.epoch = step, number, (step - 1) // 3
            self.samples, self.position = Core().samples(step, number)

    torch.manual_seed(0)
    sampler = muster.torch.Run.sampler(None, Noisy(), 16, slices=4, seed=5)
    source = LoaderSource(DataLoader(Noisy(), batch_sampler=sampler, num_workers=2), Core(), 4)
    plain = Source(Noisy(), sampler.spec)
    schedule = [(1, 0), (1, 1), (2, 0), (2, 1), (3, 0), (3, 1), (3, 3), (3, 2), (4, 1), (4, 0), (7, 2), (7, 3), (2, 0), (2, 1), (2, 2),
                (12, 0), (12, 1), (12, 2), (12, 3)]
    for step, number in schedule:
        found, want = source.batch(Work(step, number)), plain.batch(Work(step, number))
        assert all(torch.equal(found[name], want[name]) for name in want), (step, number)
    source.close()


# ---- bad use ----

def fails(error, text, data, **options):
    net = nn.Linear(3, 1)
    with pytest.raises(error, match=text), joined(net) as run:
        given = data(run) if callable(data) else data
        for epoch in run.epochs(1):
            for step in epoch.steps(given, **options):
                for _ in step:
                    pass


class Stream(IterableDataset):
    def __iter__(self):
        return iter([1])


def test_what_cannot_be_trained_on_is_a_clear_error():
    fails(TypeError, 'must have __getitem__', Stream(), global_batch=8)
    fails(TypeError, 'must have __getitem__', iter([1]), global_batch=8)
    fails(TypeError, 'needs global_batch', Noisy())
    fails(TypeError, r'batch_sampler=run.sampler', DataLoader(Noisy(), batch_size=8))
    fails(TypeError, r'steps\(loader\) takes nothing else', loader_of, global_batch=8)
    fails(ValueError, 'made for 48 samples, and the dataset has 8',
          lambda run: DataLoader(kit.dataset(8), batch_sampler=run.sampler(Noisy(), 16)))
    fails(ValueError, 'multiple of slices', lambda run: DataLoader(Noisy(), batch_sampler=run.sampler(Noisy(), 12)))
    fails(RuntimeError, 'step.backward', Noisy(), global_batch=16)


def loader_of(run):
    return DataLoader(Noisy(), batch_sampler=run.sampler(Noisy(), 16))


def test_the_users_loader_is_not_to_be_looped_over():
    with joined(nn.Linear(3, 1)) as run, pytest.raises(RuntimeError, match='this DataLoader is for epoch.steps'):
        next(iter(loader_of(run)))


def test_an_error_in_the_dataset_comes_out():
    class Broken(Noisy):
        def __getitem__(self, i):
            raise ZeroDivisionError(f'sample {i} is bad')
    fails(ZeroDivisionError, 'is bad', Broken(), global_batch=16)
    fails(ZeroDivisionError, 'is bad', lambda run: DataLoader(Broken(), batch_sampler=run.sampler(Noisy(), 16), num_workers=1))
