"""What workers do together: collectives on arrays, tensors and buffers.

All workers make the same calls in the same order. Results depend on what was contributed and by which
rank, to the last bit. When somebody is lost every call that waits raises PeerLost, with its inputs
as they were: `run.regroup()`, and make it again."""
from __future__ import annotations

import array
import sys
from typing import Any, NamedTuple

from . import _muster
from ._time import to_ms
from .errors import Invalid, Timeout

OPS = {'sum': _muster.SUM, 'mean': _muster.MEAN, 'min': _muster.MIN, 'max': _muster.MAX}
_FORMATS = {_muster.F32: 'f', _muster.F64: 'd', _muster.F16: 'e', _muster.I32: 'i', _muster.I64: 'q',
            _muster.U8: 'B'}


class Result(NamedTuple):
    """Of a call: whose contributions it holds."""

    generation: int
    members: int
    newest: int  # of an agreed call: all members know of this generation by now; 0


class Group(NamedTuple):
    """The workers that calls are made in."""

    generation: int  # 0: there is none yet
    rank: int
    size: int
    settled: bool  # the agreed call that failed counts all the same: make it again first


class Handle:
    """A call in the background. Its buffers must stay as they are until wait() has returned."""

    def __init__(self, run: 'Collectives', started: _muster.Started, out: Any) -> None:
        self._run = run
        self._started = started
        self._out = out
        self._over = False

    def wait(self, timeout: float | None = None) -> Any:
        """Its result. Timeout: it goes on; wait again later."""
        if not self._over:
            try:
                result = self._started.finish(to_ms(timeout))
            except Timeout:
                raise
            except BaseException:
                self._over = True
                raise
            self._over = True
            self._run._made = result
        return self._out

    def done(self) -> bool:
        """Whether wait() would return at once. Raises what it would raise."""
        try:
            self.wait(0)
        except Timeout:
            return False
        return True


class Collectives:
    """The part of a Run that calls of the data plane are.

    x: a numpy array, a torch tensor on the CPU, an array.array, or any other contiguous buffer or DLPack
    tensor; zero copy. out: where the result goes, of the same kind; None: a new one. op: "sum",
    "mean", "min", "max". agree: it succeeds for all workers or for none. timeout: how many seconds a peer
    may do nothing; None: forever. async_: in the background; gives a Handle."""

    def __init__(self, core: _muster.Run) -> None:
        self.core = core
        self._made: tuple | None = None

    @property
    def result(self) -> Result | None:
        """What is known of the last call; None: there was none."""
        return None if self._made is None else Result(*self._made[:3])

    @property
    def group(self) -> Group:
        """The group that calls are made in: not always the newest generation, until regroup()."""
        return Group(*self.core.group())

    def regroup(self, timeout: float | None = None) -> Group:
        """Moves to the newest generation, together with all its members."""
        self.core.regroup(to_ms(timeout))
        return self.group

    def alloc(self, nbytes: int) -> _muster.Memory:
        """Memory that travels without a copy to workers on the same host: a buffer, zeroed."""
        return self.core.alloc(nbytes)

    def allreduce(self, x: Any, out: Any = None, op: str = 'sum', *, agree: bool = False,
                  timeout: float | None = None, async_: bool = False) -> Any:
        """The reduction of everybody's x, for everybody. out may be x."""
        if out is None:
            out = _like(x)
        return self._call(async_, out, _muster.ALLREDUCE, x, out, -1, -1, _op(op), 0, 0, agree,
                          -1 if timeout is None else to_ms(timeout))

    def reduce_scatter(self, x: Any, out: Any = None, op: str = 'sum', *, agree: bool = False,
                       timeout: float | None = None, async_: bool = False) -> Any:
        """x has one part for each rank; rank r gets the reduction of the r-th parts."""
        size = self._size(timeout)
        if out is None:
            out = _like(x, parts=size)
        _, nbytes, dtype = _muster.describe(x)
        if nbytes % (size * _bytes(dtype)):
            raise Invalid(_muster.EINVAL, f'reduce_scatter: x has {nbytes} bytes, which are not {size} equal parts, '
                          'one for each rank')
        return self._call(async_, out, _muster.REDUCE_SCATTER, x, out, -1, -1, _op(op), 0, 0, agree,
                          to_ms(timeout))

    def allgather(self, x: Any, out: Any = None, *, agree: bool = False, timeout: float | None = None,
                  async_: bool = False) -> Any:
        """Everybody's x, by rank: one row for each."""
        if out is None:
            out = _like(x, rows=self._size(timeout))
        return self._call(async_, out, _muster.ALLGATHER, x, out, -1, -1, 0, 0, 0, agree, to_ms(timeout))

    def broadcast(self, x: Any, root: int = 0, *, agree: bool = False, timeout: float | None = None,
                  async_: bool = False) -> Any:
        """The root's x becomes everybody's, in place."""
        return self._call(async_, x, _muster.BROADCAST, x, x, -1, -1, 0, root, 0, agree, to_ms(timeout))

    def reduce(self, x: Any, out: Any = None, root: int = 0, op: str = 'sum', *, agree: bool = False,
               timeout: float | None = None, async_: bool = False) -> Any:
        """As allreduce(), at the root alone; elsewhere it gives out as it was."""
        self._size(timeout)
        if out is None and self.core.group()[1] == root:
            out = _like(x)
        return self._call(async_, out, _muster.REDUCE, x, out, -1, -1, _op(op), root, 0, agree,
                          to_ms(timeout))

    def meet(self, *, agree: bool = False, timeout: float | None = None) -> None:
        """Until every member of the group has come. Needs no orchestrator; compare barrier()."""
        self._call(False, None, _muster.MEET, None, None, 0, _muster.U8, 0, 0, 0, agree, to_ms(timeout))

    def send(self, x: Any, to: int, tag: int = 0, *, timeout: float | None = None, async_: bool = False) -> Any:
        """To one rank, which calls recv() with as many elements and the same tag."""
        return self._call(async_, None, _muster.SEND, x, None, -1, -1, 0, to, tag, False, to_ms(timeout))

    def recv(self, out: Any, source: int, tag: int = 0, *, timeout: float | None = None,
             async_: bool = False) -> Any:
        """From one rank, into out."""
        return self._call(async_, out, _muster.RECV, None, out, -1, -1, 0, source, tag, False, to_ms(timeout))

    def allreduce_view(self, x: Any, op: str = 'sum', *, agree: bool = False,
                       timeout: float | None = None) -> memoryview:
        """The result where it lies, read-only, without a copy where memory is shared; in numpy:
        numpy.asarray(view). The last two of one size can be held; each goes with its last user."""
        flags = _muster.VIEW | (_muster.AGREE if agree else 0)
        *made, memory = self.core.make(_muster.ALLREDUCE, x, None, -1, -1, _op(op), 0, 0, flags, to_ms(timeout))
        self._made = tuple(made)
        dtype = _muster.describe(x)[2]
        return memoryview(memory).cast(_FORMATS.get(dtype, 'B'))

    def _size(self, timeout: float | None) -> int:
        group = self.core.group()
        if group[0] == 0:
            self.core.regroup(to_ms(timeout))
            group = self.core.group()
        return group[2]

    def _call(self, background: bool, out: Any, kind: int, x: Any, into: Any, count: int, dtype: int,
              reduction: int, rank: int, tag: int, agree: bool, timeout_ms: int) -> Any:
        flags = _muster.AGREE if agree else 0
        if background:
            started = self.core.start(kind, x, into, count, dtype, reduction, rank, tag, flags, timeout_ms)
            return Handle(self, started, out)
        self._made = self.core.make(kind, x, into, count, dtype, reduction, rank, tag, flags, timeout_ms)
        return out


def _op(name: str) -> int:
    try:
        return OPS[name]
    except (KeyError, TypeError):
        raise Invalid(_muster.EINVAL, f'there is no reduction {name!r}: sum, mean, min or max') from None


def _bytes(dtype: int) -> int:
    return {_muster.F64: 8, _muster.I64: 8, _muster.BF16: 2, _muster.F16: 2, _muster.U8: 1}.get(dtype, 4)


# ---- a place for a result, of the kind that x is ----

def _like(x: Any, rows: int = 0, parts: int = 1) -> Any:
    """rows: of so many; parts: the first dimension is cut into so many."""
    shape = getattr(x, 'shape', None)
    numpy = sys.modules.get('numpy')
    torch = sys.modules.get('torch')
    if numpy is not None and isinstance(x, numpy.ndarray):
        return numpy.empty(_shape(shape, rows, parts), x.dtype)
    if torch is not None and isinstance(x, torch.Tensor):
        return torch.empty(_shape(tuple(shape), rows, parts), dtype=x.dtype)
    try:
        view = memoryview(x)
    except TypeError:
        raise Invalid(_muster.EINVAL, f'for {type(x).__name__} muster can\'t make the result: give it as `out`') from None
    nbytes = view.nbytes * (rows or 1) // parts
    if isinstance(x, array.array):
        return array.array(x.typecode, bytes(nbytes))
    return memoryview(bytearray(nbytes)).cast(view.format)


def _shape(shape: tuple, rows: int, parts: int) -> tuple:
    if rows:
        return (rows, *shape)
    if parts > 1:
        if not shape or shape[0] % parts:
            raise Invalid(_muster.EINVAL, f'the first dimension of {shape} is not {parts} equal parts, one for each rank: '
                          'give `out`')
        return (shape[0] // parts, *shape[1:])
    return shape
