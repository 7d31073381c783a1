"""torch's own process groups, gloo or nccl, made again for each generation."""
import datetime
import time

import torch.distributed as dist

from .. import _muster, errors
from ..errors import NotFound, PeerLost
from . import _meeting
from ._meeting import PAUSE_S, Place
from ._store import Server

# Where the store of the step's generation is, by whoever is its rank 0. Everybody can read settings, so
# the word that opens the store is not among them: members know it from the generation's key.
SETTING = 'torch/store'
ASK_MS = 10000


class StockGroup:
    """torch's default process group, of the workers of the generation that the run is in.

    All workers ask for `group` at the same places of their programs, such as before each step. It is
    made when it is asked for first, and again when the generation has changed: it is another object
    then, and DDP must be made again, too. rank, size, generation: as they are in it."""

    def __init__(self, run, backend, timeout):
        self._run = run
        self._core = run.core
        self._backend = backend
        self._timeout = datetime.timedelta(seconds=timeout)
        self._place = Place(0, -1, 0)
        self._store = None

    @property
    def generation(self):
        return self._place.generation

    @property
    def rank(self):
        return self._place.rank

    @property
    def size(self):
        return self._place.size

    @property
    def group(self):
        """Asks all workers whether it is still that of the newest generation. In a loop over
        epochs and steps it is that of the step, and muster.PeerLost is raised if one of its workers
        is lost meanwhile: the loop's next step is without that one. Elsewhere those who are left
        make the next one, at once."""
        if self._run.loop.spec is not None:
            self._follow_step()
        else:
            self._follow_newest()
        return dist.group.WORLD

    __call__ = lambda self: self.group

    def close(self):
        """So that another default group can be made. It is not needed at the end."""
        if self._store is not None:
            if dist.is_initialized():
                dist.destroy_process_group()
            self._store.close()
            self._store = None
            self._place = Place(0, -1, 0)

    def _clear(self):
        self.close()
        if dist.is_initialized():
            raise RuntimeError('there is a default process group that process_group() has not made: '
                               'destroy_process_group() first')

    def _make(self, store):
        """All or nothing."""
        self._store = store
        try:
            dist.init_process_group(self._backend, store=store, rank=store.place.rank,
                                    world_size=store.place.size, timeout=self._timeout)
        except BaseException:
            self.close()
            raise
        self._place = store.place

    # ---- without a loop over steps: the data plane is free for a question ----

    def _is_newest(self):
        if self._store is None:
            return False
        try:
            done = self._core.make(_muster.MEET, None, None, 0, _muster.U8, flags=_muster.AGREE)
        except PeerLost:
            return False
        return done[0] == self._place.generation and done[2] <= done[0]

    def _follow_newest(self):
        while not self._is_newest():
            self._clear()
            store = _meeting.meet(self._core)
            try:
                self._make(store)
            except PeerLost:
                continue  # … while it was made: the next generation is due.

    # ---- inside of one: the group is the step's, and newcomers wait until the next step ----

    def _follow_step(self):
        place = Place(*self._core.group()[:3])
        if place.generation != self._place.generation:
            self._clear()
            self._make(self._find_store(place))

    def _find_store(self, place):
        members = _meeting.Members(self._core, place.generation)
        word = self._core.group_secret(place.generation, SETTING).hex()
        if place.rank > 0:
            return _meeting.reach_store(place, members, *self._wait_setting(place, members), word)
        host = _meeting.host_of(_meeting.own_address(self._core))
        server = Server(host, word)
        if place.size > 1:
            words = f'{place.generation} {host} {server.port}'
            self._core.config_put(SETTING, words.encode(), timeout_ms=ASK_MS)
        return _meeting.Store(place, members, host, server.port, server)

    def _wait_setting(self, place, members):
        until = time.monotonic() + self._timeout.total_seconds()
        while time.monotonic() < until:
            try:
                said = bytes(self._core.config_get(SETTING, ASK_MS)[1]).decode().split()
            except NotFound:
                said = ['0']
            if int(said[0]) == place.generation:
                return said[1], int(said[2])
            members.check()
            time.sleep(PAUSE_S)
        raise errors.make(_muster.STATUSES['MU_ETIMEDOUT'], 'rank 0 has not asked for its process '
                          f'group in generation {place.generation}: all workers must')


def process_group(run, backend='gloo', timeout=300.0):
    """A StockGroup: torch's own backend, gloo or nccl, with the workers of the run's generation.

    timeout: seconds that its operations may take, as torch has it. The backend nccl is made by the
    same calls of torch as gloo; there was no machine with several GPUs to test it on."""
    return StockGroup(run, backend, timeout)
