#!/usr/bin/env python3
"""Trains a small network on Fashion-MNIST: plain.py in an ordinary loop, elastic.py on however many workers there are.
Compare the two.

Needs Debian's python3-torch and dataset-fashion-mnist."""
import argparse
import gzip
import hashlib

import muster.torch
import torch
from torch import nn
from torch.utils import data


class FashionMNIST(data.Dataset):
    """Images of clothes, 28 x 28, and which of ten kinds each is."""

    def __init__(self, folder, name, samples=None, flip=False):
        with gzip.open(f'{folder}/{name}-images-idx3-ubyte.gz') as file:
            pixels = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=16)
        with gzip.open(f'{folder}/{name}-labels-idx1-ubyte.gz') as file:
            labels = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8, offset=8)
        self.images = pixels.view(-1, 1, 28, 28)[:samples].float() / 255
        self.labels = labels[:samples].long()
        self.flip = flip

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        image = self.images[i]
        if self.flip and torch.rand(()) < 0.5:
            image = image.flip(2)
        return image, self.labels[i]


def network():
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, stride=2, padding=2), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Flatten(), nn.Dropout(0.25), nn.Linear(32 * 7 * 7, 10))


@torch.no_grad()
def evaluate(model, test):
    """How many of a hundred test images are recognised."""
    model.eval()
    right = sum(int((model(x).argmax(1) == y).sum()) for x, y in zip(test.images.split(500), test.labels.split(500)))
    model.train()
    return 100 * right / len(test)


def sha256(*parts):
    """Of everything that training has made."""
    found = hashlib.sha256()

    def add(value):
        if isinstance(value, dict):
            for key in value:
                add(key)
                add(value[key])
        elif isinstance(value, (list, tuple)):
            for one in value:
                add(one)
        elif isinstance(value, torch.Tensor):
            found.update(value.detach().contiguous().numpy().tobytes())
        else:
            found.update(repr(value).encode() + b'\n')
    for part in parts:
        add(part)
    return found.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--data', default='/usr/share/datasets/fashion-mnist', help='folder of the dataset')
    parser.add_argument('--epochs', type=int, default=2)
    parser.add_argument('--samples', type=int, help='train on that many only')
    args = parser.parse_args()

    torch.manual_seed(1)
    train = FashionMNIST(args.data, 'train', args.samples, flip=True)
    test = FashionMNIST(args.data, 't10k', args.samples)
    model = network()
    loss_fn = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.3)
    state = {'best': 0.0}
    run = muster.torch.join(model, optimizer, scheduler, state)

    for epoch in run.epochs(args.epochs):
        for step in epoch.steps(train, global_batch=256, slices=8, seed=1):
            for x, y in step:
                step.backward(loss_fn(model(x), y))
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        scheduler.step()
        accuracy = evaluate(model, test)
        state['best'] = max(accuracy, state['best'])
        print(f'epoch {epoch}: {accuracy:.1f} % of the test images recognised', flush=True)

    print(f'best {state["best"]:.1f} %')
    print(f'sha256 {sha256(model.state_dict(), optimizer.state_dict(), state)}', flush=True)


if __name__ == '__main__':
    main()
