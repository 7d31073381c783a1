"""Where the workers of one generation meet, for torch.distributed: who is which rank, and the store
in which torch leaves words for the others.

torch waits in its store for all ranks, half an hour by default. A member that dies meanwhile must end
that: so the store is a TCPStore behind calls that look whether all members are still there.
"""
import datetime
import time
from typing import NamedTuple

import torch.distributed as dist

from .. import _muster, errors
from ..errors import PeerLost

PAUSE_S = 0.02  # Between two looks at what others may have done.
NOTHING = b'\x01muster: nothing'
GONE_S = 5  # So long it may take until we hear that the worker that has the store is gone.
CONNECT = datetime.timedelta(seconds=10)
WORD_BYTES = 128  # Of one rank's, when they tell each other where they are.


class Place(NamedTuple):
    """Of this worker in a generation."""
    generation: int
    rank: int
    size: int


class Members:
    """Those of one generation, and whether all of them are in the newest as well."""

    def __init__(self, run, generation: int, addresses=None):
        self._run = run
        self._generation = generation
        self._addresses = addresses
        self.check()

    def check(self):
        """Raises PeerLost if one of them is gone."""
        world = self._run.world()
        addresses = frozenset(world[9])
        if self._addresses is None and world[0] == self._generation:
            self._addresses = addresses
        elif self._addresses is not None and not self._addresses <= addresses:
            gone = ', '.join(sorted(self._addresses - addresses))
            raise errors.make(_muster.STATUSES['MU_EPEER'],
                              f'{gone} of generation {self._generation} is gone: '
                              'destroy_process_group(), then init_process_group() again')

    def ask(self, call, *arguments):
        """A call that another member answers. If it fails that one is gone, or so busy that it does
        not answer: which of them, muster will know soon."""
        try:
            return call(*arguments)
        except RuntimeError:
            until = time.monotonic() + GONE_S
            while time.monotonic() < until:
                self.check()
                time.sleep(PAUSE_S)
            raise


class Store(dist.Store):
    """The TCPStore of one generation, until a member of that is lost."""

    def __init__(self, place: Place, members: Members, host: str, port: int, inner: dist.Store):
        super().__init__()
        self.place = place
        self.host = host
        self.port = port
        self._members = members
        self._ask = members.ask
        self._inner = inner
        self._limit = inner.timeout

    def set_timeout(self, timeout):
        self._limit = timeout

    def set(self, key, value):
        self._ask(self._inner.set, key, value)

    def add(self, key, amount):
        self._members.check()
        return self._ask(self._inner.add, key, amount)

    def get(self, key):
        """Asks again and again: a wait of TCPStore that ends early leaves its connection between
        two answers."""
        return self._poll([key], self._limit)[0]

    def wait(self, keys, timeout=None):
        self._poll(keys, timeout or self._limit)

    def _poll(self, keys, limit):
        until = time.monotonic() + limit.total_seconds()
        pause_s = 0.001
        while True:
            self._members.check()
            found = [self._peek(key) for key in keys]
            if NOTHING not in found:
                return found
            if time.monotonic() > until:
                missing = [key for key, value in zip(keys, found) if value == NOTHING]
                raise errors.make(_muster.STATUSES['MU_ETIMEDOUT'],
                                  f'nobody has set {", ".join(missing)} in the store of '
                                  f'generation {self.place.generation}')
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S)

    def _peek(self, key):
        """Its value, at once. A key that is not there has any value that is expected of it."""
        word = NOTHING.decode()
        return self._ask(self._inner.compare_set, key, word, word)

    def compare_set(self, key, expected, desired):
        return self._ask(self._inner.compare_set, key, expected, desired)

    def delete_key(self, key):
        return self._ask(self._inner.delete_key, key)

    def num_keys(self):
        return self._ask(self._inner.num_keys)


def own_address(run) -> str:
    """Where other workers reach this one: "host:port"; "": it is in no generation."""
    world = run.world()
    return world[9][world[1]] if world[1] >= 0 else ''


def host_of(address: str) -> str:
    return address.rpartition(':')[0].strip('[]') or '127.0.0.1'


def host_store(place: Place) -> dist.TCPStore:
    """This worker has the store, on any free port."""
    return dist.TCPStore('localhost', 0, place.size, True, CONNECT, False)


def reach_store(place: Place, members: Members, host: str, port: int) -> Store:
    """Another one has it."""
    inner = members.ask(dist.TCPStore, host, port, place.size, False, CONNECT, False)
    return Store(place, members, host, port, inner)


def _open(run, place: Place) -> Store:
    """All tell all their address, and rank 0 its store's port, by the data plane: if somebody is lost
    meanwhile, all hear of it."""
    inner = host_store(place) if place.rank == 0 else None
    word = f'{own_address(run)} {inner.port if inner else 0}'.encode().ljust(WORD_BYTES)
    said = bytearray(WORD_BYTES * place.size)
    run.make(_muster.ALLGATHER, word, said, WORD_BYTES, _muster.U8)
    rows = [said[at:at + WORD_BYTES].decode().rsplit(maxsplit=1)
            for at in range(0, len(said), WORD_BYTES)]
    members = Members(run, place.generation, frozenset(row[0] for row in rows if len(row) == 2))
    host, port = host_of(rows[0][0]), int(rows[0][-1])
    return Store(place, members, host, port, inner) if inner else reach_store(place, members, host, port)


def meet(run) -> Store:
    """Moves to the newest generation, together with all its members, and opens its store."""
    while True:
        run.regroup()
        place = Place(*run.group()[:3])
        try:
            return _open(run, place)
        except PeerLost:
            continue  # The next generation is due: regroup() waits for it.
