"""The backend `muster` of torch.distributed: a process group on muster's data plane."""
import functools

import torch
import torch.distributed as dist

from .. import _muster
from ..errors import Done, Left, PeerLost, Stale
from ._work import Failed, Finisher, Work, again

RedOp = dist.ReduceOp.RedOpType
REDUCTIONS = {RedOp.SUM: _muster.SUM, RedOp.AVG: _muster.MEAN, RedOp.MIN: _muster.MIN,
              RedOp.MAX: _muster.MAX}
DTYPES = {torch.float32: _muster.F32, torch.float64: _muster.F64, torch.bfloat16: _muster.BF16,
          torch.float16: _muster.F16, torch.int32: _muster.I32, torch.int64: _muster.I64,
          torch.uint8: _muster.U8}
WORKS_MAX = 4096


def _reduction(op):
    kind = getattr(op, 'op', op)
    if kind not in REDUCTIONS:
        raise NotImplementedError(f'backend muster has no ReduceOp.{kind.name}: SUM, AVG, MIN and '
                                  'MAX are there')
    return REDUCTIONS[kind]


def _one(tensors, what):
    """The tensor of a list that has one, as torch gives them; on the CPU and dense."""
    if len(tensors) != 1:
        raise ValueError(f'{what}: backend muster takes one tensor for each rank, not {len(tensors)}')
    return _plain(tensors[0], what)


def _plain(tensor, what):
    if tensor.device.type != 'cpu':
        raise TypeError(f'{what}: backend muster has no {tensor.device.type} tensors: for those, '
                        'muster.torch.process_group(run, backend="nccl")')
    if tensor.layout != torch.strided:
        raise TypeError(f'{what}: backend muster has no sparse tensors: call to_dense()')
    return tensor


def _number_type(tensor, what):
    """Of a tensor that is to be reduced."""
    if tensor.dtype not in DTYPES:
        known = ', '.join(str(dtype).rpartition('.')[2] for dtype in DTYPES)
        raise TypeError(f'{what}: backend muster does not reduce {tensor.dtype}: {known}')
    return DTYPES[tensor.dtype]


class ProcessGroup(dist.ProcessGroup):
    """All workers of one generation. Operations are started when they are asked for, and made in
    that order by a thread of libmuster: those of DDP's buckets while backward goes on."""

    def __init__(self, run, generation, rank, size, timeout):
        super().__init__(rank, size)
        self.generation = generation
        self.broken = None  # The error after which nothing more can be done in this group.
        self.finisher = Finisher()
        self._run = run
        self._timeout_ms = max(int(timeout.total_seconds() * 1000), 1)
        self._batch = None  # Of sends and receives, until _end_coalescing().
        self._works = {}  # Those that nobody has waited for yet, the oldest first.

    def getBackendName(self):
        return 'muster'

    # ---- how an operation begins ----

    def _start(self, kind, source, out, count, dtype, **more):
        """What can not begin any more has failed when it is waited for: DDP's C++ calls this during
        backward, and would make any exception into a RuntimeError."""
        if self.broken is not None:
            return Failed(again(self.broken))
        try:
            return self._run.start(kind, source, out, count, dtype, timeout_ms=self._timeout_ms, **more)
        except (PeerLost, Stale, Done, Left) as error:
            return Failed(error)

    def _work(self, started, tensors, after=None):
        return self._keep(Work(self, started, tensors, after))

    def _keep(self, work):
        """C++ holds its own half of a Work alone, and waits for ever in one whose other half is
        gone: so it is kept here until somebody has waited for it. For whoever never does, there are
        so many at a time."""
        if len(self._works) == WORKS_MAX:
            oldest = next(iter(self._works))
            oldest.finish()  # Its tensors are in use until then.
            self.taken(oldest)
        self._works[work] = None
        return work

    def taken(self, work):
        """Somebody has waited for it, or nobody will."""
        self._works.pop(work, None)

    def settle(self):
        """Waits until nothing is under way. What failed has been told, or nobody asked."""
        while self._works:
            work = next(iter(self._works))
            work.finish()
            self.taken(work)
        self.finisher.close()

    def _reduce(self, tensors, op, what, kind, **more):
        """In place, through a copy if the tensor has gaps."""
        started, dense = [], [_plain(t, what).contiguous() for t in tensors]
        for flat in dense:
            dtype = _number_type(flat, what)
            if flat.numel() > 0:
                out = flat.data_ptr() if more.get('rank', self.rank()) == self.rank() else None
                started.append(self._start(kind, flat.data_ptr(), out, flat.numel(), dtype,
                                           reduction=_reduction(op), **more))

        def copy_back():
            for tensor, flat in zip(tensors, dense):
                if flat is not tensor:
                    tensor.copy_(flat)

        return self._work(started, tensors, copy_back)

    # ---- reductions ----

    def allreduce(self, tensors, opts=None):
        _one(tensors, 'all_reduce')
        op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        return self._reduce(tensors, op, 'all_reduce', _muster.ALLREDUCE)

    def allreduce_coalesced(self, tensors, opts):
        return self._reduce(tensors, opts.reduceOp, 'all_reduce_coalesced', _muster.ALLREDUCE)

    def reduce(self, tensors, opts):
        """On ranks other than the root the tensor stays as it is."""
        _one(tensors, 'reduce')
        return self._reduce(tensors, opts.reduceOp, 'reduce', _muster.REDUCE, rank=opts.rootRank)

    def reduce_scatter(self, outputs, inputs, opts):
        out = _one(outputs, 'reduce_scatter')
        if len(inputs) != 1 or len(inputs[0]) != self.size():
            raise ValueError(f'reduce_scatter: a list of {self.size()} tensors is needed, one for '
                             'each rank')
        if any(t.numel() != out.numel() or t.dtype != out.dtype for t in inputs[0]):
            raise ValueError('reduce_scatter: all inputs must have the type and the size of the '
                             'output')
        flat = torch.cat([_plain(t, 'reduce_scatter').reshape(-1) for t in inputs[0]])
        return self._scatter_into(out, flat, opts)

    def _reduce_scatter_base(self, output, source, opts):
        out = _plain(output, 'reduce_scatter_tensor')
        if source.numel() != self.size() * out.numel() or source.dtype != out.dtype:
            raise ValueError(f'reduce_scatter_tensor: the input must have {self.size()} times as '
                             'many elements as the output, of the same type')
        return self._scatter_into(out, _plain(source, 'reduce_scatter_tensor').contiguous(), opts)

    def _scatter_into(self, out, flat, opts):
        dense = out.contiguous()
        dtype = _number_type(dense, 'reduce_scatter')
        started = []
        if dense.numel() > 0:
            started.append(self._start(_muster.REDUCE_SCATTER, flat.data_ptr(), dense.data_ptr(),
                                       dense.numel(), dtype, reduction=_reduction(opts.reduceOp)))
        return self._work(started, [out, flat, dense],
                          None if dense is out else lambda: out.copy_(dense))

    # ---- operations that add nothing: of any type, as bytes ----

    def broadcast(self, tensors, opts):
        tensor = _one(tensors, 'broadcast')
        dense = tensor.contiguous()
        started = []
        if dense.numel() > 0:
            started.append(self._start(_muster.BROADCAST, dense.data_ptr(), dense.data_ptr(),
                                       _bytes(dense), _muster.U8, rank=opts.rootRank))
        return self._work(started, tensors, None if dense is tensor else lambda: tensor.copy_(dense))

    def _gather(self, source, flat, keep, after):
        """`flat` is memory for the sources of all ranks."""
        started = []
        if source.numel() > 0:
            started.append(self._start(_muster.ALLGATHER, source.data_ptr(), flat.data_ptr(),
                                       _bytes(source), _muster.U8))
        return self._work(started, [*keep, source, flat], after)

    def allgather(self, outputs, inputs, opts=None):
        source = _one(inputs, 'all_gather').contiguous()
        if len(outputs) != 1 or len(outputs[0]) != self.size():
            raise ValueError(f'all_gather: a list of {self.size()} tensors is needed, one for each '
                             'rank')
        if any(_plain(t, 'all_gather').numel() != source.numel() or t.dtype != source.dtype
               for t in outputs[0]):
            raise ValueError('all_gather: all outputs must have the type and the size of the input')
        flat = torch.empty((self.size(), source.numel()), dtype=source.dtype)

        def spread():
            for tensor, row in zip(outputs[0], flat):
                tensor.copy_(row.view(tensor.shape))

        return self._gather(source, flat, outputs[0], spread)

    def _allgather_base(self, output, source, opts=None):
        dense = _plain(source, 'all_gather_into_tensor').contiguous()
        if output.numel() != self.size() * dense.numel() or output.dtype != dense.dtype:
            raise ValueError(f'all_gather_into_tensor: the output must have {self.size()} times as '
                             'many elements as the input, of the same type')
        flat = _plain(output, 'all_gather_into_tensor').contiguous()
        return self._gather(dense, flat, [output],
                            None if flat is output else lambda: output.copy_(flat))

    # ---- the rest ----

    def barrier(self, opts=None):
        return self._work([self._start(_muster.MEET, None, None, 0, _muster.U8)], [])

    # ---- from one to another: a send takes until its recv is made, and others come after it ----

    def _pass(self, kind, dense, peer, tag, keep, after):
        """Those of a batch are put off, and started in an order in which nobody waits in a circle:
        by the two ranks, and what goes up before what goes down."""
        source, out = (dense.data_ptr(), None) if kind == _muster.SEND else (None, dense.data_ptr())
        begin = functools.partial(self._start, kind, source, out, _bytes(dense), _muster.U8,
                                  rank=peer, tag=tag)
        if self._batch is None:
            return self._work([begin()], keep, after)
        work = Work(self, [], keep, after)
        low, high = sorted((self.rank(), peer))
        down = (self.rank() < peer) == (kind == _muster.RECV)
        self._batch.append(((low, high, down), begin, work))
        return work

    def send(self, tensors, to, tag=0):
        dense = _one(tensors, 'send').contiguous()
        return self._pass(_muster.SEND, dense, to, tag, [dense], None)

    def recv(self, tensors, source, tag=0):
        tensor = _one(tensors, 'recv')
        dense = tensor.contiguous()
        return self._pass(_muster.RECV, dense, source, tag, [tensor, dense],
                          None if dense is tensor else lambda: tensor.copy_(dense))

    def _start_coalescing(self):
        self._batch = []

    def _end_coalescing(self, _works):
        batch, self._batch = self._batch, None
        for _, begin, work in sorted(batch, key=lambda item: item[0]):
            work.add(begin())
            self._keep(work)


def _bytes(tensor):
    return tensor.numel() * tensor.element_size()


def _missing(name, instead):
    def call(self, *arguments, **more):
        raise NotImplementedError(f'backend muster has no {name}: {instead}')

    call.__name__ = name
    return call


for _name, _instead in (('gather', 'all_gather has it'), ('scatter', 'broadcast has it'),
                        ('alltoall', 'new_group(backend="gloo") has it'),
                        ('alltoall_base', 'new_group(backend="gloo") has it'),
                        ('allgather_coalesced', 'all_gather of each tensor has it'),
                        ('recv_anysource', 'say from which rank'),
                        ('monitored_barrier', 'barrier() raises when a rank is lost')):
    setattr(ProcessGroup, _name, _missing(_name, _instead))
