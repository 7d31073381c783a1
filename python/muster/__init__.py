"""muster: elastic distributed training.

A script that was started by `muster run` is one worker of a job; started by itself it is a job of
one, the same program, unchanged:

    import muster

    with muster.join() as run:
        total = run.allreduce(numbers)            # of all workers
        print(run.rank, run.size, total)

`muster.torch` makes a plain PyTorch loop elastic in a few lines. `run.epochs()` is the same without
a framework. The module imports without numpy and torch.
"""
from __future__ import annotations

from ._muster import VERSION as __version__
from .errors import (Busy, Conflict, Corrupt, Diverged, Done, Error, Exists, InputOutput, Invalid,
                     Left, Limit, NotFound, OrderError, OutOfMemory, PeerLost, ProtocolError, Refused,
                     Stale, Timeout, TryAgain, VersionMismatch)
from .collect import Result
from .config import Setting
from .run import Peer, Roster, Run, World, current, join
from .tf import tf_config

__all__ = ['Busy', 'Conflict', 'Corrupt', 'Diverged', 'Done', 'Error', 'Exists', 'InputOutput',
           'Invalid', 'Left', 'Limit', 'NotFound', 'OrderError', 'OutOfMemory', 'PeerLost',
           'Peer', 'ProtocolError', 'Refused', 'Result', 'Roster', 'Run', 'Setting', 'Stale', 'Timeout', 'TryAgain',
           'VersionMismatch', 'World', 'current', 'join', 'tf_config']
