"""Plain values as bytes, and back: the same bytes for the same value on every worker.

What travels between workers and lies in checkpoints may come from elsewhere, so reading it runs no
code: a value is a tag and what belongs to it, and there are tags for plain values only. Other types
(tensors) are added by whoever knows them, as Kind.

    value := tag(1 byte) body
    n     := 8 bytes, little endian

The order of a dict is kept: a loop over it is part of what a worker does. Sets are ordered by
their bytes.
"""
import collections
import struct

MAGIC = b'mu1\n'
DEPTH_MAX = 64

_N = struct.Struct('<Q')
_F = struct.Struct('<d')

_SEQUENCES = {list: b'l', tuple: b't', set: b's', frozenset: b'z'}
_MAPPINGS = {dict: b'd', collections.OrderedDict: b'o', collections.Counter: b'c'}


class Own:
    """In the place of something that stays each worker's own, such as a function."""

    def __repr__(self):
        return '<own>'


OWN = Own()


class Kind:
    """Another type: a tag, does it fit, its bytes (a list of bytes-like pieces), and back."""

    def __init__(self, tag, fits, save, load):
        self.tag = tag
        self.fits = fits
        self.save = save
        self.load = load


def _name(path):
    return path or 'the value itself'


class _Writer:
    def __init__(self, kinds, own):
        self.pieces = [MAGIC]
        self.kinds = kinds
        self.own = own

    def sized(self, tag, data):
        self.pieces += (tag, _N.pack(len(data)), data)

    def other(self, value, path):
        for kind in self.kinds:
            if kind.fits(value):
                found = kind.save(value)
                self.pieces += (kind.tag, _N.pack(sum(len(piece) for piece in found)), *found)
                return
        if self.own and callable(value):
            self.pieces.append(b'w')
            return
        raise TypeError(f'{_name(path)} is a {type(value).__module__}.{type(value).__qualname__}: '
                        'only plain values can be kept: None, bool, int, float, complex, str, bytes, '
                        'lists, tuples, sets, dicts' + (', tensors' if self.kinds else ''))

    def put(self, value, path, depth=0):
        kind = type(value)
        if depth > DEPTH_MAX:
            raise TypeError(f'{_name(path)} is nested more than {DEPTH_MAX} deep, or contains itself')
        if value is None:
            self.pieces.append(b'N')
        elif kind is bool:
            self.pieces.append(b'T' if value else b'F')
        elif kind is int:
            self.sized(b'i', value.to_bytes(value.bit_length() // 8 + 1, 'little', signed=True))
        elif kind is float:
            self.pieces += (b'f', _F.pack(value))
        elif kind is complex:
            self.pieces += (b'j', _F.pack(value.real), _F.pack(value.imag))
        elif kind is str:
            self.sized(b'u', value.encode('utf-8', 'surrogatepass'))
        elif kind is bytes or kind is bytearray:
            self.sized(b'b' if kind is bytes else b'a', bytes(value))
        elif kind in _SEQUENCES:
            self.sequence(value, _SEQUENCES[kind], path, depth)
        elif kind in _MAPPINGS:
            self.pieces += (_MAPPINGS[kind], _N.pack(len(value)))
            for key, one in value.items():
                self.put(key, f'a key of {_name(path)}', depth + 1)
                self.put(one, f'{path}[{key!r}]', depth + 1)
        else:
            self.other(value, path)

    def sequence(self, value, tag, path, depth):
        self.pieces += (tag, _N.pack(len(value)))
        if tag in b'sz':
            parts = []
            for one in value:
                inner = _Writer(self.kinds, False)
                inner.put(one, f'an element of {_name(path)}', depth + 1)
                parts.append(b''.join(inner.pieces[1:]))
            self.pieces += sorted(parts)
        else:
            for i, one in enumerate(value):
                self.put(one, f'{path}[{i}]', depth + 1)


class _Reader:
    def __init__(self, data, kinds):
        self.data = memoryview(data).cast('B')
        self.kinds = {kind.tag: kind for kind in kinds}
        self.at = 0

    def take(self, n):
        if n > len(self.data) - self.at:
            raise ValueError('a value that was kept is cut off')
        self.at += n
        return self.data[self.at - n:self.at]

    def n(self):
        return _N.unpack(self.take(8))[0]

    def f(self):
        return _F.unpack(self.take(8))[0]

    def value(self, depth=0):
        if depth > DEPTH_MAX:
            raise ValueError('a value that was kept is nested too deep')
        tag = bytes(self.take(1))
        simple = _SIMPLE.get(tag)
        if simple is not None:
            return simple(self)
        for kind, own in _SEQUENCES.items():
            if tag == own:
                return kind([self.value(depth + 1) for _ in range(self.n())])
        for kind, own in _MAPPINGS.items():
            if tag == own:
                found = kind()
                for _ in range(self.n()):
                    key = self.value(depth + 1)
                    found[key] = self.value(depth + 1)
                return found
        if tag in self.kinds:
            return self.kinds[tag].load(self.take(self.n()))
        raise ValueError(f'a value that was kept has the unknown tag {tag!r}')


_SIMPLE = {
    b'N': lambda r: None,
    b'T': lambda r: True,
    b'F': lambda r: False,
    b'w': lambda r: OWN,
    b'i': lambda r: int.from_bytes(r.take(r.n()), 'little', signed=True),
    b'f': lambda r: r.f(),
    b'j': lambda r: complex(r.f(), r.f()),
    b'u': lambda r: str(r.take(r.n()), 'utf-8', 'surrogatepass'),
    b'b': lambda r: bytes(r.take(r.n())),
    b'a': lambda r: bytearray(r.take(r.n())),
}


def encode(value, kinds=(), own=False, path=''):
    """The bytes of a value. own: what can be called is left out, and stays each worker's own.

    TypeError names the place of what can't be kept."""
    writer = _Writer(kinds, own)
    writer.put(value, path)
    return b''.join(writer.pieces)


def decode(data, kinds=()):
    """The value of such bytes. ValueError: they are not."""
    reader = _Reader(data, kinds)
    if bytes(reader.take(len(MAGIC))) != MAGIC:
        raise ValueError('a value that was kept does not begin as one')
    try:
        value = reader.value()
    except Exception as error:  # Whatever damaged bytes lead to.
        raise ValueError(f'a value that was kept is damaged: {error}') from error
    if reader.at != len(reader.data):
        raise ValueError('a value that was kept has something behind its end')
    return value


def with_own(value, mine):
    """The value, with what is OWN in it taken from the same place of `mine`."""
    if value is OWN:
        return mine
    if isinstance(value, dict) and isinstance(mine, dict):
        for key in value:
            value[key] = with_own(value[key], mine.get(key))
        return value
    if isinstance(value, (list, tuple)) and isinstance(mine, (list, tuple)):
        padded = list(mine) + [None] * (len(value) - len(mine))
        return type(value)([with_own(one, own) for one, own in zip(value, padded)])
    return value
