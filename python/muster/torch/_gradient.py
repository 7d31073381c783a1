"""The gradient in parts: where each parameter's lies, how it gets there, and what comes back.

Parameters are taken in reverse order of registration, which is about the order in which backward() finishes
them, so that the first parts can travel while it computes the others. A slice's gradient goes from .grad to the
memory that the core reduces, by one copy; slices are never added up by autograd. What is committed goes to memory
of our own, of which .grad are views then: it may be clipped, or scaled, in place."""
import weakref

import torch

from .. import _muster
from ._things import TYPES

PARTS_MAX = 14  # Of the core's 16: two are left for buffers.
PART_BYTES_MIN = 1 << 20

CORE_TYPES = {torch.float32: _muster.F32, torch.float64: _muster.F64, torch.bfloat16: _muster.BF16,
              torch.float16: _muster.F16}


class Part:
    """A part of the gradient: parameters of one type, and perhaps room for buffers behind them."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.size = torch.empty((), dtype=dtype).element_size()
        self.params = []      # numbers of parameters
        self.params_n = 0     # elements
        self.count = 0        # … and with what is behind them
        self.flat = None      # what is committed
        self.address = 0      # of flat
        self.missing = 0      # parameters that the slice lacks still
        self.early = True     # it can be complete before the end of backward()

    def reserve(self, n):
        """Room for n elements behind the parameters; where it begins."""
        at = self.count
        self.count += n
        self.early = False
        return at

    def allocate(self):
        self.flat = torch.zeros(self.count, dtype=self.dtype)
        self.address = self.flat.data_ptr()


def plan(params):
    """The parts for these parameters, [(name, parameter)], and (part, offset) of each."""
    by_type = {}
    for number in reversed(range(len(params))):
        by_type.setdefault(params[number][1].dtype, []).append(number)
    total = sum(p.numel() * p.element_size() for _, p in params)
    full = max(PART_BYTES_MIN, -(-total // max(1, PARTS_MAX - len(by_type))))
    parts, places = [], [None] * len(params)
    for dtype, numbers in by_type.items():
        part = None
        for number in numbers:
            if part is None or part.count * part.size >= full:
                part = Part(dtype)
                parts.append(part)
            places[number] = (len(parts) - 1, part.count)
            part.params.append(number)
            part.count += params[number][1].numel()
            part.params_n = part.count
    return parts, places


class Gradient:
    """Of the parameters that are trained."""

    def __init__(self, params, unused, overlap):
        self.params = [(name, p) for name, p in params if p.requires_grad]
        self.frozen = [(name, p) for name, p in params if not p.requires_grad]
        if not self.params:
            raise TypeError('no parameter needs a gradient: there is nothing to train')
        self.unused = unused
        self.overlap = overlap
        self.parts, self.places = plan(self.params)
        self.core = None
        self.views = []
        self.nodes = []
        self.seen = []
        self.outs = ()

    def start(self, core):
        """All parts are there: memory and hooks for them. Nodes are held, or autograd makes others."""
        self.core = core
        for part in self.parts:
            part.allocate()
        for i, (_, p) in enumerate(self.params):
            number, at = self.places[i]
            self.views.append(self.parts[number].flat[at:at + p.numel()].view(p.shape))
        if self.overlap and sum(part.early for part in self.parts):
            for i, (_, p) in enumerate(self.params):
                with torch.enable_grad():
                    node = p.expand_as(p).grad_fn.next_functions[0][0]
                self.nodes.append((node, node.register_hook(_hook(weakref.ref(self), i))))

    def close(self):
        """The run is over: parameters are as they were before it."""
        for _, handle in self.nodes:
            handle.remove()
        self.nodes = []
        self.outs = ()

    def begin(self, outs):
        """A slice begins; its gradient goes to that memory."""
        self.clear()
        self.outs = [out.address for out in outs]
        self.seen = [False] * len(self.params)
        for part in self.parts:
            part.missing = len(part.params)

    def clear(self):
        for _, p in self.params:
            p.grad = None

    def take(self, i):
        """The gradient of a parameter is there."""
        name, p = self.params[i]
        grad = p.grad
        if grad is None:
            return
        if self.seen[i]:
            raise RuntimeError(f'the gradient of {name} came twice in one backward(), as with reentrant checkpointing: '
                               'give overlap=False to muster.torch.join()')
        if grad.layout is not torch.strided:
            raise RuntimeError(f'the gradient of {name} is {grad.layout}: only dense gradients can be reduced (an '
                               'Embedding needs sparse=False)')
        number, at = self.places[i]
        part = self.parts[number]
        if not grad.is_contiguous():
            grad = grad.contiguous()
        _muster.copy(self.outs[number] + at * part.size, grad.data_ptr(), grad.numel() * part.size)
        p.grad = None
        self.seen[i] = True
        part.missing -= 1
        if part.missing == 0 and part.early and self.overlap:
            self.core.part(number)

    def finish(self):
        """backward() has returned: what its hooks did not take, and parameters that had no part in it."""
        if not all(self.seen):
            for i, seen in enumerate(self.seen):
                if not seen:
                    self.take(i)
            lacking = [i for i, seen in enumerate(self.seen) if not seen]
            if lacking:
                self._fill(lacking)
        self.outs = ()

    def _fill(self, lacking):
        if self.unused == 'error':
            names = ', '.join(self.params[i][0] for i in lacking[:5]) + (', …' if len(lacking) > 5 else '')
            raise RuntimeError(f'the loss does not depend on {names}: no gradient came by backward(). If that is meant, '
                               'give unused="zero" to muster.torch.join(), and it counts as zero; or set requires_grad '
                               'to False before join()')
        for i in lacking:
            number, at = self.places[i]
            part = self.parts[number]
            n = self.params[i][1].numel() * part.size
            torch.frombuffer(_muster.memory(self.outs[number] + at * part.size, n), dtype=torch.uint8).zero_()

    def commit(self, gradients):
        """These are the means over the step."""
        for part, memory in zip(self.parts, gradients):
            _muster.copy(part.address, memory.address, part.count * part.size)
        for (_, p), view in zip(self.params, self.views):
            p.grad = view

    def nonfinite(self):
        """The name of a parameter whose committed gradient is not finite; None: there is none."""
        for part in self.parts:
            if part.params_n and not _finite(part.flat[:part.params_n]):
                for i in part.params:
                    if not _finite(self.views[i]):
                        return self.params[i][0]
        return None

    def check(self):
        """Is it still the same that is to be trained?"""
        for name, p in self.params:
            if not p.requires_grad:
                raise RuntimeError(f'{name} does not need a gradient any more (requires_grad is False), but did when '
                                   'muster.torch.join() was called: it must stay as it was then')
        for name, p in self.frozen:
            if p.requires_grad:
                raise RuntimeError(f'{name} needs a gradient now (requires_grad is True), but did not when '
                                   'muster.torch.join() was called: it must stay as it was then')


def _hook(gradient, i):
    """Held by autograd, of which Python's collector knows nothing: so it holds nobody."""
    def complete(*_):
        mine = gradient()
        if mine is not None and mine.outs:
            mine.take(i)
    return complete


def _finite(flat):
    if not flat.numel():
        return True
    if flat.dtype in (torch.bfloat16, torch.float16):
        return bool(torch.isfinite(flat).all())
    low, high = torch.aminmax(flat)  # NaN wins in both.
    return bool(torch.isfinite(low) & torch.isfinite(high))


assert set(CORE_TYPES) == set(TYPES)
