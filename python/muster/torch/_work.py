"""One operation that torch has asked for: made in the background, waited for by whoever wants to."""
import threading
from queue import SimpleQueue

import torch
from torch._C._distributed_c10d import Work as TorchWork

from .. import _muster, errors
from ..errors import Error, Timeout


def again(error):
    """The same for another who waits: an exception has one traceback."""
    if not isinstance(error, Error):
        return RuntimeError(str(error))
    return errors.make(error.status, error.text, error.lost_rank)


class Failed:
    """In place of a call that could not be started."""

    def __init__(self, error):
        self._error = error

    def finish(self, _timeout_ms=-1):
        raise self._error


class Work(TorchWork):
    """Calls that were started, and what is to be done when all of them have succeeded. Its tensors
    stay until then. Any thread may wait for it, several at a time."""

    def __init__(self, group, started, tensors, after=None):
        super().__init__()
        self._group = group
        self._started = list(started)
        self._tensors = tensors
        self._after = after
        self._error = None
        self._done = False
        self._lock = threading.Lock()
        self._future = None

    def add(self, started):
        """Of an operation that was put off; nobody has waited for it yet."""
        self._started.append(started)

    def _complete(self):
        """All calls are finished."""
        after, self._after = self._after, None
        if self._error is not None:
            self._group.broken = self._error
        elif after is not None:
            try:
                after()
            except Exception as error:  # Whoever waits is told; the thread that finishes goes on.
                self._error = error

    def finish(self, timeout_ms=-1):
        """Without an exception if it has failed; Timeout if it is still under way."""
        limit_s = -1 if timeout_ms < 0 else timeout_ms / 1000
        if not self._lock.acquire(timeout=limit_s):
            raise errors.make(_muster.STATUSES['MU_ETIMEDOUT'], 'the operation is still under way')
        try:
            while self._started:
                try:
                    self._started[0].finish(timeout_ms)
                except Timeout:
                    raise
                except Error as error:
                    self._error = self._error or error
                self._started.pop(0)
            if not self._done:
                self._complete()
                self._done = True
        finally:
            self._lock.release()

    def _check(self):
        if self._error is not None:
            raise again(self._error) from self._error

    # ---- as torch knows it ----

    def wait(self, timeout=None):
        """True, or raises what went wrong. A timeout of 0 is none, as everywhere in torch."""
        self.finish(max(int(timeout.total_seconds() * 1000), 1) if timeout else -1)
        self._group.taken(self)
        self._check()
        return True

    def synchronize(self):
        self.wait()

    def is_completed(self):
        if not self._done:
            try:
                self.finish(0)
            except Timeout:
                return False
        return True

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        """What went wrong; None: nothing, or nothing yet."""
        return self._error

    def result(self):
        return self._tensors

    def get_future(self):
        """Completed by a thread: C++ waits in it, without asking us."""
        if self._future is None:
            first = torch.futures.Future()
            self._future = first.then(self._value)
            raise_in_backward(self)
            self._group.finisher.add(self, first)
        return self._future

    def _value(self, _first):
        # An exception that is set from Python is a value for C++; one that is raised here is not.
        self._check()
        return self._tensors


def raise_in_backward(work):
    """If this is called during a backward pass, that ends with the work's own exception: DDP waits
    for its futures at the end, and would tell of their text alone. Those who come first are
    called first, and DDP comes when it has asked for all of them."""
    try:
        torch.autograd.Variable._execution_engine.queue_callback(work.wait)
    except RuntimeError:
        pass  # Nobody is in a backward pass.


class Finisher:
    """A thread that finishes work in the order in which it was asked for."""

    def __init__(self):
        self._queue = SimpleQueue()
        self._thread = None

    def add(self, work, future):
        if self._thread is None:
            self._thread = threading.Thread(target=self._main, name='muster-torch', daemon=True)
            self._thread.start()
        self._queue.put((work, future))

    def close(self):
        """When all is finished."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _main(self):
        for work, future in iter(self._queue.get, None):
            work.finish()
            future.set_result(None)
            work._group.taken(work)
            del work, future
