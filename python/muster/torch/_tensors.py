"""Tensors, types, shapes and NumPy's values as bytes: what _codec lacks to keep optimizers and schedulers."""
import json

import numpy
import torch

from .. import _codec

_NAMES = ('float32', 'float64', 'bfloat16', 'float16', 'int8', 'int16', 'int32', 'int64', 'uint8', 'bool',
          'complex64', 'complex128')
_DTYPES = {name: getattr(torch, name) for name in _NAMES}
_TEXTS = {dtype: name for name, dtype in _DTYPES.items()}


def bytes_of(tensor):
    """A view of a dense tensor's memory."""
    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())


def _save_tensor(tensor):
    if tensor.device.type != 'cpu' or tensor.layout is not torch.strided or tensor.dtype not in _TEXTS:
        raise TypeError(f'a tensor of type {tensor.dtype}, layout {tensor.layout} on {tensor.device} can\'t be kept: '
                        'it must be a dense one in main memory')
    plain = tensor.detach().contiguous()
    head = json.dumps([_TEXTS[plain.dtype], list(plain.shape)]).encode() + b'\n'
    return [head, bytes_of(plain)] if plain.numel() else [head]


def _split(data):
    """The line in front, as a value, and what is behind it."""
    end = bytes(data[:4096]).index(b'\n')
    return json.loads(bytes(data[:end])), data[end + 1:]


def _load_tensor(data):
    (name, shape), raw = _split(data)
    tensor = torch.empty(shape, dtype=_DTYPES[name])
    if tensor.numel() * tensor.element_size() != len(raw):
        raise ValueError('a tensor that was kept has another size than it says')
    if tensor.numel():
        bytes_of(tensor)[:] = raw  # Copied: aligned as every tensor is, for some kernels care.
    return tensor


def _save_array(array):
    if array.dtype.hasobject or array.dtype.names:
        raise TypeError(f'an array of {array.dtype} can\'t be kept: it must be one of numbers')
    plain = numpy.ascontiguousarray(array).reshape(array.shape)
    return [json.dumps([plain.dtype.str, list(plain.shape)]).encode() + b'\n', plain.tobytes()]


def _load_array(data):
    (name, shape), raw = _split(data)
    return numpy.frombuffer(bytes(raw), dtype=numpy.dtype(name)).reshape(shape).copy()


KINDS = (
    _codec.Kind(b'X', lambda v: isinstance(v, torch.Tensor), _save_tensor, _load_tensor),
    _codec.Kind(b'Y', lambda v: isinstance(v, torch.dtype), lambda v: [_TEXTS[v].encode()],
                lambda data: _DTYPES[str(data, 'ascii')]),
    _codec.Kind(b'Z', lambda v: isinstance(v, torch.Size), lambda v: [json.dumps(list(v)).encode()],
                lambda data: torch.Size(json.loads(bytes(data)))),
    _codec.Kind(b'G', lambda v: isinstance(v, numpy.generic), lambda v: _save_array(numpy.asarray(v)),
                lambda data: _load_array(data)[()]),
    _codec.Kind(b'A', lambda v: isinstance(v, numpy.ndarray), _save_array, _load_array),
)
