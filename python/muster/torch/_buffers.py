"""Buffers of models, such as BatchNorm's running means.

Every slice starts from the committed ones, and what it makes of them travels with its gradient: on commit a buffer
that any slice has changed becomes the mean over the slices, weighted by their samples; one of integers advances once
per step, by the mean of what slices added, rounded. One that nobody has changed stays as it is, to the last bit.

Outside of a slice, from its first line to its backward(), buffers are the committed ones: whoever looks at the state
of the run sees nothing else."""
import torch

from .. import _muster
from ._gradient import Part

DELTA_MAX = 1 << 24  # Integers up to this are exact in f32.


class _Buffer:
    def __init__(self, name, tensor):
        self.name = name
        self.tensor = tensor
        self.dtype = tensor.dtype
        self.wire = torch.float64 if self.dtype is torch.float64 else torch.float32
        self.floats = self.dtype.is_floating_point
        self.same = self.dtype is self.wire
        self.bytes = tensor.numel() * tensor.element_size()
        self.kept = torch.empty_like(tensor)
        self.part = None
        self.at = 0       # of its values in the part
        self.flag = 0     # of "a slice has changed it"

    def save(self):
        _muster.copy(self.kept.data_ptr(), self.tensor.data_ptr(), self.bytes)

    def restore(self):
        _muster.copy(self.tensor.data_ptr(), self.kept.data_ptr(), self.bytes)

    def values(self):
        """What travels: the new values, or what was added to integers."""
        if self.floats:
            return self.tensor if self.same else self.tensor.to(self.wire)
        delta = self.tensor.to(torch.int64) - self.kept.to(torch.int64)
        if int(delta.abs().max()) > DELTA_MAX:
            raise RuntimeError(f'buffer {self.name} changed by more than {DELTA_MAX} in one slice: what travels of '
                               'buffers of integers is how far they advance')
        return delta.to(self.wire)

    def commit(self, flat):
        """flat: the means of the part."""
        mean = flat[self.at:self.at + self.tensor.numel()].as_strided(self.tensor.shape, self.tensor.stride())
        if not self.floats:
            self.tensor.add_(mean.round().to(torch.int64))
        elif float(flat[self.flag]) != 0.0:
            self.tensor.copy_(mean)


class Buffers:
    def __init__(self, buffers, parts):
        """buffers: [(name, buffer)]. Finds room behind the last of these parts of each type, or adds one."""
        self.all = []
        self.fixed = []
        self.parts = parts
        for name, tensor in buffers:
            if not tensor.numel():
                continue
            if tensor.dtype is torch.bool or tensor.dtype.is_complex:
                self.fixed.append(_Buffer(name, tensor))
            else:
                self.all.append(_Buffer(name, tensor))
        for buffer in self.all:
            buffer.part = self._part(buffer.wire)
            part = parts[buffer.part]
            buffer.at = part.reserve(buffer.tensor.numel())
            buffer.flag = part.reserve(1)
        self.stage = {}

    def _part(self, dtype):
        for i in reversed(range(len(self.parts))):
            if self.parts[i].dtype is dtype:
                return i
        self.parts.append(Part(dtype))
        return len(self.parts) - 1

    def begin(self):
        """A slice begins: this is what it starts from."""
        for buffer in self.all:
            buffer.save()
        for buffer in self.fixed:
            buffer.save()

    def give(self, outs):
        """The slice is computed: what it has made of them goes to that memory."""
        for buffer in self.all:
            size = self.parts[buffer.part].size
            address = outs[buffer.part].address
            changed = self._flags(buffer.wire)[0 if torch.equal(buffer.tensor, buffer.kept) else 1]
            values = buffer.values()
            _muster.copy(address + buffer.at * size, values.data_ptr(), values.numel() * size)
            _muster.copy(address + buffer.flag * size, changed.data_ptr(), size)
        for buffer in self.fixed:
            if not torch.equal(buffer.tensor, buffer.kept):
                raise RuntimeError(f'buffer {buffer.name} of type {buffer.dtype} changed in a slice: slices can\'t be '
                                   'averaged in it. Change it between steps, alike on all workers')
        self.restore()

    def _flags(self, dtype):
        if dtype not in self.stage:
            self.stage[dtype] = (torch.zeros(1, dtype=dtype), torch.ones(1, dtype=dtype))
        return self.stage[dtype]

    def restore(self):
        for buffer in self.all:
            buffer.restore()

    def commit(self):
        for buffer in self.all:
            buffer.commit(self.parts[buffer.part].flat)
