"""Frameworks as their users have them, from build/venv; without it these cases are skipped."""
import glob
import importlib.metadata
import os

import cluster as module
import pytest

VENV = os.path.join(module.BUILD, 'venv')


class Framework:
    """Scripts that run with the frameworks of the virtual environment."""

    def __init__(self, world):
        self.world = world
        self.python = os.path.join(VENV, 'bin', 'python')

    def version(self, package):
        path = glob.glob(os.path.join(VENV, 'lib', 'python3*', 'site-packages'))
        return next(importlib.metadata.Distribution.discover(name=package, path=path)).version

    def alone(self, script, args=()):
        return module.alone(script, args, python=self.python)

    def cluster(self, script, workers=1, **settings):
        return module.Cluster(self.world, script, workers, env={'PYTHON_EXEC': self.python}, **settings)


@pytest.fixture
def framework(world):
    if not os.path.exists(os.path.join(VENV, 'stamp')):
        pytest.skip('there is no build/venv with real frameworks: make venv')
    return Framework(world)
