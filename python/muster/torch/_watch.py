"""Calls that wait for other members where nobody can reach them: in a system call, or in torch's C++.

gloo connects its ranks when a group is made, in its constructor, and waits there for five times the
group's time-out: a member that dies meanwhile must end that. Nothing can interrupt it, so it is made
in a thread of its own. When a member is lost that thread is left to itself. All that it still does is
to wait, and to fail; the half of a group that it holds belongs to nobody.

A thread that comes back from C++ while Python ends aborts the process. One that was left comes back soon,
because its next call of a store fails, or when gloo's time is up: so whoever ends soon after a loss waits
for those that are on their way.
"""
import atexit
import importlib
import threading
import time

import torch.distributed as dist

from ..errors import Error
from ..run import current

LOOK_S = 0.02  # Between two looks at who is still there.
CALM_S = 1  # So long after a loss, one that has not asked a store waits for one that is dead.
BACK_S = 30  # … and one that has is back: against hanging only.

_torch = importlib.import_module('torch.distributed.distributed_c10d')
_left = []  # Threads, each with the time since when.


class Watched(threading.Thread):
    """A call in a thread of its own. members: whom it may wait for; None: unknown until it uses a store."""

    def __init__(self, call, members=None):
        super().__init__(name='muster-watched', daemon=True)
        self.members = members
        self.back = False  # It is in a call of a store, or that has failed: it is on its way back.
        self._call = call
        self._result = None
        self._error = None

    def run(self):
        try:
            self._result = self._call()
        except BaseException as error:  # Whatever it is, it is the caller's.
            self._error = error
        finally:
            self._call = None  # What it holds goes with it.

    def finish(self):
        """Makes the call, and gives what it does; raises PeerLost when one of the members is lost."""
        self.start()
        try:
            self._await()
        except BaseException:
            _left[:] = [one for one in _left if one[0].is_alive()] + [(self, time.monotonic())]
            raise
        error, self._error = self._error, None
        if error is None:
            return self._result
        if self.members is not None and isinstance(error, Exception) and not isinstance(error, Error):
            self.members.blame()
        raise error

    def _await(self):
        while True:
            self.join(LOOK_S)
            if not self.is_alive():
                return
            if self.members is not None:
                self.members.check()


@atexit.register
def _await_left():
    for thread, since in _left:
        while thread.is_alive() and time.monotonic() < since + (BACK_S if thread.back else CALM_S):
            thread.join(LOOK_S)


def use_store(members, call, *arguments):
    """A call of a store of these members, by whatever thread."""
    thread = threading.current_thread()
    if not isinstance(thread, Watched):
        return call(*arguments)
    thread.members = members
    thread.back = True
    result = call(*arguments)
    thread.back = False
    return result


def begin_anew():
    """torch numbers its groups, and keys in the store have that number. A group that could not be made
    counts for those who had begun with it only: without a default group the next is the first, for all."""
    if not dist.is_initialized():
        if hasattr(_torch, '_world'):
            _torch._world.group_count = 0
        else:
            _torch._group_count = 0


def _watch_gloo(group_class):
    connect = group_class.__init__

    def init(self, *arguments, **more):
        if current() is None:
            connect(self, *arguments, **more)
            return
        try:
            Watched(lambda: connect(self, *arguments, **more)).finish()
        except BaseException:
            begin_anew()
            raise

    group_class.__init__ = init


if hasattr(dist, 'ProcessGroupGloo'):
    _watch_gloo(dist.ProcessGroupGloo)
