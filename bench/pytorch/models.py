"""What is trained: the same for all contestants."""
import importlib.util
import os

import torch
from torch import nn

# The plain one has the same model and data, and needs nothing of muster's.
EXAMPLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../../examples/torch/plain.py')
MLP_SAMPLES, MLP_IN, MLP_WIDTH, MLP_OUT = 1024, 1024, 4096, 1000


def example():
    """examples/torch/plain.py as a module."""
    spec = importlib.util.spec_from_file_location('plain', EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cnn():
    """Of the example, on Fashion-MNIST: the model, a dataset, the batch of all workers."""
    module = example()
    data = module.FashionMNIST('/usr/share/datasets/fashion-mnist', 'train', 20_000, flip=True)
    return module.network(), data, 256


def mlp():
    """25 million parameters on noise."""
    model = nn.Sequential(nn.Linear(MLP_IN, MLP_WIDTH), nn.ReLU(), nn.Linear(MLP_WIDTH, MLP_WIDTH), nn.ReLU(),
                          nn.Linear(MLP_WIDTH, MLP_OUT))
    x = torch.randn(MLP_SAMPLES, MLP_IN)
    y = torch.randint(MLP_OUT, (MLP_SAMPLES,))
    return model, torch.utils.data.TensorDataset(x, y), 64


def make(name):
    """Model, dataset, batch, optimizer; torch has one thread."""
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model, data, batch = {'cnn': cnn, 'mlp': mlp}[name]()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    return model, data, batch, optimizer
