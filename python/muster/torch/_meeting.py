"""Where the workers of one generation meet, for torch.distributed: who is which rank, and the store
in which torch leaves words for the others.

torch waits in its store for all ranks, half an hour by default. A member that dies meanwhile must end
that: so the calls of this store look whether all members are still there.
"""
import datetime
import time
from typing import NamedTuple

import torch.distributed as dist

from .. import _muster, errors
from ..errors import PeerLost
from ._store import MISSING, Client, Server
from ._watch import Watched, use_store

PAUSE_S = 0.02  # Between two looks at what others may have done.
GONE_S = 30  # So long it may take until we hear that a worker is gone: until its node's lease ends.
CONNECT_S = 10
WORD_BYTES = 160  # In which rank 0 tells where its store is.


class Place(NamedTuple):
    """Of this worker in a generation."""
    generation: int
    rank: int
    size: int


class Members:
    """Those of one generation, which this worker is in."""

    def __init__(self, run, generation: int):
        self._run = run
        self._generation = generation
        self.check()

    def check(self):
        """Raises PeerLost if one of them is gone, and Done if the run has ended."""
        try:
            self._run.group_check(self._generation)
        except PeerLost as error:
            raise errors.make(error.status, f'{error}: destroy_process_group(), then '
                              'init_process_group() again') from None

    def ask(self, call, *arguments):
        """A call that another member answers. If it fails that one is gone, or so busy that it does
        not answer: which of them, muster will know soon."""
        self.check()
        try:
            return call(*arguments)
        except OSError:
            self.blame()
            raise

    def blame(self):
        """Something failed that another member takes part in: raises PeerLost if one is gone."""
        until = time.monotonic() + GONE_S
        while time.monotonic() < until:
            self.check()
            time.sleep(PAUSE_S)


def to_bytes(value) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


class Store(dist.Store):
    """Of one generation, until a member of that is lost. holder: what answers its calls."""

    def __init__(self, place: Place, members: Members, host: str, port: int, holder):
        super().__init__()
        self.place = place
        self.host = host
        self.port = port
        self._members = members
        self._holder = holder
        self._limit = datetime.timedelta(minutes=5)

    def close(self):
        self._holder.close()

    def _ask(self, what, key='', first=b'', second=b''):
        return use_store(self._members, self._members.ask, self._holder.call, what, key.encode(),
                         to_bytes(first), to_bytes(second))

    def set_timeout(self, timeout):
        self._limit = timeout

    def set(self, key, value):
        self._ask(b's', key, value)

    def add(self, key, amount):
        return int(self._ask(b'a', key, str(amount)))

    def compare_set(self, key, expected, desired):
        return self._ask(b'c', key, expected, desired)

    def delete_key(self, key):
        return self._ask(b'd', key) == b'1'

    def num_keys(self):
        return int(self._ask(b'n'))

    def get(self, key):
        return self._wait([key], self._limit)[0]

    def wait(self, keys, timeout=None):
        self._wait(keys, timeout or self._limit)

    def _wait(self, keys, limit):
        """Asks again and again."""
        until = time.monotonic() + limit.total_seconds()
        pause_s = 0.001
        while True:
            found = [self._ask(b'g', key) for key in keys]
            missing = [key for key, value in zip(keys, found) if value == MISSING]
            if not missing:
                return [value[1:] for value in found]
            if time.monotonic() > until:
                raise errors.make(_muster.STATUSES['MU_ETIMEDOUT'],
                                  f'nobody has set {", ".join(missing)} in the store of '
                                  f'generation {self.place.generation}')
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, PAUSE_S)


def own_address(run) -> str:
    """Where other workers reach this one: "host:port"; "": it is in no generation."""
    world = run.world()
    return world[9][world[1]] if world[1] >= 0 else ''


def host_of(address: str) -> str:
    return address.rpartition(':')[0].strip('[]') or '127.0.0.1'


def reach_store(place: Place, members: Members, host: str, port: int, word: str) -> Store:
    """Another worker holds it."""
    client = Watched(lambda: Client(host, port, word, CONNECT_S, members.check), members).finish()
    return Store(place, members, host, port, client)


def _open(run, place: Place) -> Store:
    """Rank 0 tells all where its store is, by the data plane: if somebody is lost meanwhile, all hear of it."""
    server = Server(host_of(own_address(run))) if place.rank == 0 else None
    said = bytearray(WORD_BYTES)
    if server:
        said[:] = f'{host_of(own_address(run))} {server.port} {server.word}'.encode().ljust(WORD_BYTES)
    try:
        run.make(_muster.BROADCAST, said, said, WORD_BYTES, _muster.U8)
        members = Members(run, place.generation)
    except BaseException:
        if server:
            server.close()
        raise
    host, port, word = said.decode().split()
    if server:
        return Store(place, members, host, int(port), server)
    return reach_store(place, members, host, int(port), word)


def meet(run) -> Store:
    """Moves to the newest generation, together with all its members, and opens its store."""
    while True:
        run.regroup()
        *place, settled = run.group()
        try:
            if settled:  # What was asked before the loss is answered now, and only to those who lack the answer.
                run.make(_muster.MEET, None, None, 0, _muster.U8, flags=_muster.AGREE)
            return _open(run, Place(*place))
        except PeerLost:
            continue  # The next generation is due: regroup() waits for it.
