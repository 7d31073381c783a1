"""torch.distributed on muster: the backend `muster`, and the rendezvous of env://.

After `import muster.torch` a script for DistributedDataParallel has

    torch.distributed.init_process_group("muster")

and is started by `muster run`, or alone. When a worker is lost the others' next collective raises
muster.PeerLost, in DDP's backward too. Then, in the same process,

    torch.distributed.destroy_process_group()
    torch.distributed.init_process_group("muster")

is the group of the next generation: whoever is left, and whoever has come. Ranks keep their order,
newcomers come after those who stay. A survivor that has not noticed yet finds out in its next
collective, because the others have moved.

Importing this replaces torch's handler of env://, the default init_method: a worker of `muster run`,
or a process with neither RANK nor MASTER_ADDR, joins its job, moves to the newest generation and has its rank from there;
RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT are set. Whoever was
started by something else, such as torchrun, gets what torch does.
"""
import atexit
import importlib
import os
import sys
from urllib.parse import parse_qsl, urlparse

import torch.distributed as dist

from .. import _muster
from ..run import current, join
from . import _meeting
from ._group import ProcessGroup
from ._stock import process_group
from ._watch import begin_anew

# The module: in torch.distributed there is a function of that name.
_handlers = importlib.import_module('torch.distributed.rendezvous')._rendezvous_handlers
_stock_env = _handlers['env']
PART_MS = 60000

_groups = []  # Process groups of the newest generation that we know …
_store = None  # … and the store below them: C++ alone would not keep our half.


def joined():
    """This process as a worker of its job, as the calls of libmuster themselves."""
    return (current() or join()).core


def _is_ours(url):
    """Whether env:// is muster's. Otherwise a rank, or where rank 0 is, is the word of another
    launcher: in the environment, unless we have set it, or by arguments, after mp.spawn()."""
    if 'MUSTER_SOCKET' in os.environ or _store is not None:
        return True
    return not urlparse(url).query and not {'RANK', 'MASTER_ADDR'} & set(os.environ)


def _set_environment(run, store):
    world = run.world()
    said = {'RANK': store.place.rank, 'WORLD_SIZE': store.place.size, 'MASTER_ADDR': store.host,
            'MASTER_PORT': store.port}
    if world[0] == store.place.generation:
        said.update(LOCAL_RANK=world[3], LOCAL_WORLD_SIZE=world[4])
    os.environ.update({name: str(value) for name, value in said.items()})


def _check_wish(url, place):
    """rank= and world_size= of init_process_group() come as a query."""
    for name, value in parse_qsl(urlparse(url).query):
        have = {'rank': place.rank, 'world_size': place.size}.get(name)
        if have is not None and int(value) not in (have, -1):
            raise ValueError(f'init_process_group({name}={value}), but in generation '
                             f'{place.generation} it is {have}: leave rank and world_size out')


def _env_handler(url, **more):
    """What torch calls for init_method env://."""
    global _store
    if not _is_ours(url):
        yield from _stock_env(url, **more)
        return
    settle()
    run = joined()
    if _store is not None:
        _store.close()
    try:
        _store = _meeting.meet(run)
    except BaseException:
        begin_anew()
        raise
    _set_environment(run, _store)
    _check_wish(url, _store.place)
    yield _store, _store.place.rank, _store.place.size
    raise RuntimeError('env:// can not be asked twice: destroy_process_group(), then '
                       'init_process_group() again')


def settle():
    """Nothing of the last process groups is under way any more."""
    while _groups:
        _groups.pop().settle()


def _create(store, rank, size, timeout):
    """What torch calls for backend muster: also for new_group(), which can have all ranks only."""
    run = joined()
    if run.group()[0] == 0:  # By another rendezvous than ours.
        run.regroup()
    generation, own_rank, own_size, _ = run.group()
    if own_size < size and 'MUSTER_SOCKET' not in os.environ:
        raise RuntimeError(f'backend muster: this process is to be rank {rank} of {size}, but it '
                           'was not started by `muster run`, which takes the flags of torchrun')
    if size != own_size or rank != own_rank:
        raise NotImplementedError(
            f'backend muster has one group, of all {own_size} workers: rank {rank} of {size} is '
            'not this worker\'s place in it. For some of them: new_group(ranks, backend="gloo")')
    _groups.append(ProcessGroup(run, generation, rank, size, timeout))
    return _groups[-1]


def grown() -> bool:
    """Whether there is a newer generation to move to, because somebody has come: the same answer
    for all ranks, who all call this between two steps. If it is True, destroy_process_group() and
    init_process_group("muster")."""
    run = joined()
    result = run.make(_muster.MEET, None, None, 0, _muster.U8, flags=_muster.AGREE)
    return result[2] > result[0]


def _part():
    """A script that ends well meets the others before it leaves: one that is gone is lost for those who
    are still in their last operation, also if it has had its own result."""
    run = current()
    if run is None or not _groups or getattr(sys, 'last_type', None) is not None:
        return
    group = _groups[0]
    settle()
    if group.broken is None and run.core.group()[0] == group.generation:
        run.meet_at_exit_ms = PART_MS


def _register():
    atexit.register(_part)
    _handlers['env'] = _env_handler
    dist.Backend.register_backend('muster', _create)


_register()
