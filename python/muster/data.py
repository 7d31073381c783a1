"""Records in files, by number: RecordIO, lines, CSV, fixed sizes, TFRecord, IDX, tar shards, MDS, SQLite.

    import muster.data

    reader = muster.data.open('train/*.recordio')     # or several, or a folder; the format is found out
    len(reader), reader[0], reader[10:20]
    for record in reader: ...
    for step in epoch.steps(reader, global_batch=256): ...

A record is `bytes`, or a `dict` if its format has columns. A reader may be shared by threads, and by
processes: it is a map-style dataset of PyTorch's. `Reader` is the base of a reader of your own.

    with muster.data.Writer('train.recordio') as file:
        file.write(b'...')
"""
from __future__ import annotations

import os
import threading
from typing import Any, Iterable, Iterator, NamedTuple
from urllib.parse import quote

from . import _muster

__all__ = ['Column', 'Reader', 'Shard', 'Writer', 'open']


class Shard(NamedTuple):
    """A part of a reader's records: most often a file. `first` is the number of its first record."""

    name: str
    first: int
    records: int


class Column(NamedTuple):
    """`type` is "bytes", "str", "int" or "float"; `detail` what the format calls it: "jpeg"."""

    name: str
    type: str
    detail: str = ''


class Reader:
    """A reader of your own: give it shards() and read(), and, if it has columns, columns().

    It then has a length, gives records by number and by slice, and can be trained on.
    """

    def shards(self) -> Iterable[tuple[str, int]]:
        """(name, number of records) of each part. Asked for once."""
        raise NotImplementedError

    def read(self, shard: str, start: int, stop: int) -> Iterable[Any]:
        """Records start to stop-1 of that part, counted from 0."""
        raise NotImplementedError

    def columns(self) -> list[Column]:
        """What is known of a record's columns."""
        return []

    @property
    def parts(self) -> list[Shard]:
        """The shards, each with the number of its first record in the whole."""
        try:
            return self._parts
        except AttributeError:
            parts, first = [], 0
            for name, records in self.shards():
                parts.append(Shard(name, first, records))
                first += records
            self._parts = parts
            return parts

    def __len__(self) -> int:
        return self.parts[-1].first + self.parts[-1].records if self.parts else 0

    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            return [self[i] for i in range(*key.indices(len(self)))]
        number = key + len(self) if key < 0 else key
        if not 0 <= number < len(self):
            raise IndexError(f'there is no record {key} of {len(self)}')
        return self._at(number)

    def _at(self, number: int) -> Any:
        low, high = 0, len(self.parts)
        while high - low > 1:  # The last that begins there or before: those of no records are none.
            middle = (low + high) // 2
            low, high = (middle, high) if self.parts[middle].first <= number else (low, middle)
        part = self.parts[low]
        return next(self.range(number, number + 1))

    def __iter__(self) -> Iterator[Any]:
        return self.range(0, len(self))

    def range(self, start: int, stop: int) -> Iterator[Any]:
        """Records start to stop-1, as far as there are any."""
        for part in self.parts:
            first, last = max(start, part.first), min(stop, part.first + part.records)
            if first < last:
                given = 0
                for given, record in enumerate(self.read(part.name, first - part.first, last - part.first), 1):
                    yield record
                if given != last - first:
                    raise IndexError(f'{part.name!r}: read({first - part.first}, {last - part.first}) gave {given} records')


class _Files(Reader):
    """What open() gives. Each thread has a scan of its own, and each process opens the files anew."""

    def __init__(self, sources: list[str], options: str) -> None:
        self._sources, self._options = sources, options
        self._open()

    def _open(self) -> None:
        self._core = _muster.records_open(self._sources, self._options)
        self._pid = os.getpid()
        self._local = threading.local()

    def __reduce__(self) -> Any:
        return _Files, (self._sources, self._options)

    def shards(self) -> Iterable[tuple[str, int]]:
        return [(name, records) for name, _, _, records, _, _ in self._core.shards()]

    def columns(self) -> list[Column]:
        return [Column(*one) for one in self._core.columns()]

    @property
    def skipped(self) -> int:
        """Damaged places that were left out, with skip=True."""
        return sum(one[5] for one in self._core.shards())

    def __len__(self) -> int:
        return self._core.count()

    def _at(self, number: int) -> Any:
        if self._pid != os.getpid():  # A forked child must not share a parent's connections and places.
            self._pid, self._local = os.getpid(), threading.local()
        try:
            scan = self._local.scan
        except AttributeError:
            scan = self._local.scan = self._core.scan()
        return scan.read(number)

    def read(self, shard: str, start: int, stop: int) -> Iterable[Any]:
        part = next((part for part in self.parts if part.name == shard), None)
        if part is None:
            raise KeyError(f'there is no shard {shard!r}')
        return self.range(part.first + start, min(part.first + stop, part.first + part.records))

    def range(self, start: int, stop: int) -> Iterator[Any]:
        return (self._at(number) for number in range(start, min(stop, len(self))))


def open(*sources: str | os.PathLike[str], **options: Any) -> Reader:  # pylint: disable=redefined-builtin
    """A reader of files: open('data/*.csv', columns='a,b', skip=True).

    A source may be a folder or a pattern, with a format in front ("csv:FILE"). docs/data.md lists the
    options.
    """
    words = {key: ('yes' if value else 'no') if isinstance(value, bool) else
             ','.join(value) if isinstance(value, (list, tuple)) else str(value) for key, value in options.items()}
    return _Files([os.fspath(source) for source in sources],
                  '&'.join(f'{key}={quote(value, safe=",")}' for key, value in words.items()))


class Writer:
    """A RecordIO file: it is there, whole, when close() returns; left by an exception, it never was."""

    def __init__(self, path: str | os.PathLike[str], compressor: str = 'snappy', chunk: int = 256 << 10) -> None:
        self._core = _muster.writer_open(os.fspath(path), f'compressor={quote(compressor)}&chunk={chunk}')
        self._closed = False

    def write(self, record: Any) -> None:
        """One more: bytes, or a buffer."""
        self._core.add(record)

    def close(self) -> None:
        """Finishes the file. Called again it does nothing."""
        if not self._closed:
            self._closed = True
            try:
                self._core.finish()
            finally:
                self._core.close()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            self.close()
        else:
            self._closed = True
            self._core.close()
