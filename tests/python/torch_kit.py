"""Small models, trained in this very process, as a job of one."""
import contextlib
import os
import sys

import cluster

sys.path.insert(0, cluster.PACKAGE)
for _name in ('MUSTER_SOCKET', 'MUSTER_SLOT', 'MUSTER_COOKIE'):
    os.environ.pop(_name, None)
import torch  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import TensorDataset  # noqa: E402

import muster  # noqa: E402
import muster.torch  # noqa: E402


def dataset(n=64, width=4, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(n, width, generator=generator), torch.randn(n, 1, generator=generator))


def model(width=4, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 1))


@contextlib.contextmanager
def joined(*things, **settings):
    """A run that is left, whatever happens."""
    run = muster.torch.join(*things, **settings)
    try:
        yield run
    finally:
        run.leave()


def train(net, data=None, epochs=1, optimizer=None, scheduler=None, loss_fn=None, global_batch=16, slices=4, seed=1,
          each=None, **settings):
    """The usual loop; (metrics of each step, the run)."""
    data = dataset() if data is None else data
    optimizer = optimizer or torch.optim.SGD(net.parameters(), lr=0.1)
    loss_fn = loss_fn or (lambda x, y: nn.functional.mse_loss(net(x), y))
    things = [net, optimizer] + ([scheduler] if scheduler else [])
    found = []
    with joined(*things, **settings) as run:
        for epoch in run.epochs(epochs):
            for step in epoch.steps(data, global_batch=global_batch, slices=slices, seed=seed):
                for x, y in step:
                    step.backward(loss_fn(x, y))
                if each:
                    each(run, step)
                optimizer.step()
                found.append(step.metrics)
            if scheduler:
                scheduler.step()
    return found, run


def same_bits(a, b):
    a, b = a.state_dict(), b.state_dict()
    return list(a) == list(b) and all(torch.equal(a[name], b[name]) for name in a)
