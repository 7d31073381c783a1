"""One worker of a job."""
from __future__ import annotations

import atexit
import os
import sys
from typing import Any, Callable, NamedTuple

from . import _muster
from ._loop import Loop
from ._state import State
from ._time import to_ms
from .collect import Collectives
from .config import Config
from .errors import Done, Invalid, Left

_PLACE = ('MUSTER_SOCKET', 'MUSTER_SLOT', 'MUSTER_COOKIE')
_current: 'Run | None' = None


class World(NamedTuple):
    """How things stand: the newest generation, and this worker's place in it."""

    generation: int  # 0: there is none yet
    rank: int        # -1: this worker is no member of it
    size: int
    local_rank: int  # among the members on this node; -1
    local_size: int
    ended: bool      # the run is over …
    failed: bool     # … and not well
    job: str
    node: str
    addresses: tuple[str, ...]  # of the members, by rank


class Peer(NamedTuple):
    """Another worker, as the roster has it."""

    id: int        # of this life of it: whoever takes its place has a higher one
    role: str      # "worker", "chief", "ps", "evaluator"
    standing: str  # "member" of the newest generation, "serving", or "warming"
    number: int    # a member's rank; else from 0 among those of its role; -1: a worker that serves
    address: str   # where it listens


class Roster(tuple):
    """The peers, and what to wait after for the next change."""

    version: int


ROLES = ('worker', 'chief', 'ps', 'evaluator')
STANDINGS = ('warming', 'serving', 'member')


class Generation(NamedTuple):
    """What on_generation() tells of."""

    generation: int
    rank: int
    size: int


class Run(Collectives):
    """One worker; `muster.join()` makes it.

    Any thread may use it, except for training (epochs, steps, slices), which is one thread's. A
    forked child is not this worker: whatever it calls raises Invalid.

    core: the calls of libmuster themselves, as `muster._muster.Run` has them.
    state: plain values that newcomers and checkpoints get, too; changed alike by all workers.
    config: the job's settings."""

    def __init__(self, *, address: str | None = None, timeout: float = 10.0, slices: int = 8,
                 steps: int = 0, digest_every: int = 100, check_every: int = 0,
                 step_timeout: float | None = None, checkpoint_dir: str | os.PathLike | None = None,
                 checkpoint_every: int = 0, checkpoint_seconds: float | None = None) -> None:
        global _current
        _check_place()
        core = _muster.join(address=address, join_ms=to_ms(timeout), slices=slices, steps=steps,
                            digest_every=digest_every, check_every=check_every,
                            step_ms=to_ms(step_timeout),
                            ckpt_dir=None if checkpoint_dir is None else os.fspath(checkpoint_dir),
                            ckpt_steps=checkpoint_every, ckpt_ms=to_ms(checkpoint_seconds))
        super().__init__(core)
        self.state = State()
        self.config = Config(core)
        self.loop = Loop(core, self.state)
        self._hooks: dict[str, list[Callable]] = {}
        self._last: World | None = None
        self._pid = os.getpid()
        self.meet_at_exit_ms = 0  # How long it waits for the others at the end, if it does.
        _current = self

    # ---- how things stand ----

    @property
    def world(self) -> World:
        """The newest generation. After leave(): as it was then, and this worker not in it."""
        if self._last is not None:
            return self._last
        return World(*self.core.world())

    @property
    def rank(self) -> int:
        """While it trains: in the generation whose step it is in. -1: in none, or it has left."""
        return self.world.rank if self.loop.rank is None else self.loop.rank

    @property
    def size(self) -> int:
        """The number of workers, of the same generation."""
        return self.world.size if self.loop.size is None else self.loop.size

    @property
    def local_rank(self) -> int:
        return self.world.local_rank

    @property
    def local_size(self) -> int:
        return self.world.local_size

    @property
    def generation(self) -> int:
        return self.world.generation

    @property
    def job(self) -> str:
        return self.world.job

    @property
    def node(self) -> str:
        return self.world.node

    @property
    def addresses(self) -> tuple[str, ...]:
        """Of all workers, by rank."""
        return self.world.addresses

    @property
    def done(self) -> bool:
        """Training is over: all steps are done."""
        return self.loop.done

    @property
    def left(self) -> bool:
        """This worker was to leave (drain, preemption), and the others go on: the loops end by
        SystemExit(0). Or leave() was called."""
        return self.loop.left or self.core.left

    def wait(self, generation: int = 0, timeout: float | None = None) -> World:
        """Until this worker is in a generation newer than that one; 0: in any."""
        self.core.wait(generation, to_ms(timeout))
        return self.world

    # ---- those who help ----

    def serve(self, timeout: float | None = None) -> bool:
        """This worker helps: it is in no generation, and the others find it by the roster. True: the time is
        over, and it goes on serving. False: the job is done, or this worker is to leave."""
        try:
            self.core.serve(to_ms(timeout))
        except (Done, Left):
            return False
        return True

    def roster(self, role: str | None = None, *, after: int = 0, timeout: float | None = None) -> Roster:
        """Who is there: members by rank, then those who help by role and number; only those of a role.
        after: the version of another roster; it waits for a change, of whatever role."""
        if role is not None and role not in ROLES:
            raise ValueError(f'there is no role {role!r}: {", ".join(ROLES)}')
        version, peers = self.core.roster(after, to_ms(timeout))
        named = (Peer(id, ROLES[r], STANDINGS[s], number, address) for id, r, s, number, address in peers)
        roster = Roster(peer for peer in named if role in (None, peer.role))
        roster.version = version
        return roster

    # ---- with the others, through the orchestrator ----

    def sync(self, tag: str, data: Any = b'', timeout: float | None = None) -> list[bytes]:
        """Everyone in the generation gets everyone's bytes, by rank."""
        return [value for _, value in self.core.sync(tag, data, to_ms(timeout))[1]]

    def barrier(self, tag: str = 'barrier', timeout: float | None = None) -> None:
        """Until every member of the generation has come. Compare meet()."""
        self.core.barrier(tag, to_ms(timeout))

    def agree(self, tag: str, data: Any, timeout: float | None = None) -> bool:
        """Do all members say the same? The same answer for all."""
        return self.core.agree(tag, data, to_ms(timeout))

    def progress(self, step: int) -> None:
        """For `muster status`: this worker has done so many steps. Not needed in a loop over steps."""
        self.core.progress(step)

    # ---- training ----

    def keep(self, name: str, memory: Any) -> None:
        """State: a writable buffer, or a tensor with __dlpack__, used where it lies. All workers begin
        with what rank 0 has, newcomers get what the others have, checkpoints hold it. Before the
        first step; names, sizes and order are the same everywhere."""
        self.loop.keep(name, memory)

    def keep_calls(self, name: str, save: Callable[[], Any], load: Callable[[memoryview], Any]) -> None:
        """State that does not lie in one place: save() gives bytes, load() takes them elsewhere."""
        self.loop.keep_calls(name, save, load)

    def gradient(self, count: int, dtype: str | int = 'f32') -> None:
        """What a slice gives: so many elements, "f32", "f64", "bf16" or "f16". Again: another part."""
        self.loop.gradient(count, dtype_number(dtype))

    def metric(self, *names: str) -> None:
        """Numbers that come with every slice; their means come with the step."""
        self.loop.metric(*names)

    def fact(self, name: str, value: str, numeric: bool = False) -> None:
        """What must be the same for all workers, or they are refused. numeric: it decides bits only."""
        self.loop.check_open(f'the fact {name!r} was added')
        self.core.fact(name, value, numeric)

    def epochs(self, n: int | None = None) -> Any:
        """The loop over epochs: those that are left of n; None: without end."""
        return self.loop.epochs(n)

    def log(self, **numbers: float) -> None:
        """Numbers to be shown with the job: those that rank 0 says."""
        for name, value in numbers.items():
            self.core.log(name, float(value))

    def checkpoint(self) -> None:
        """Wants the state after the next step to be saved, by all workers."""
        self.core.checkpoint()

    def resize(self, nodes: int) -> None:
        """Wants so many nodes from now on. Returns at once; if it is refused, the log says so."""
        self.core.resize(nodes)

    @property
    def training(self) -> dict[str, Any]:
        """What this worker has seen: steps, slices, pauses, bytes."""
        return self.core.training()

    # ---- who wants to know; called inside of the loop over steps ----

    def on_generation(self, call: Callable[[Generation, Generation], Any]) -> Callable:
        """call(before, now) when training goes on in another generation. Usable as a decorator."""
        return self._hook('on_generation', call)

    def before_step(self, call: Callable[[int], Any]) -> Callable:
        """call(step) before a step's first slice."""
        return self._hook('before_step', call)

    def after_step(self, call: Callable[[int], Any]) -> Callable:
        """call(step) when the step's update has been applied."""
        return self._hook('after_step', call)

    def _hook(self, name: str, call: Callable) -> Callable:
        if not callable(call):
            raise TypeError(f'{name}() wants something that can be called, not {call!r}')
        self._hooks.setdefault(name, []).append(call)
        self.core.hooks(**{name: self._teller(name) for name in self._hooks})
        return call

    def _teller(self, name: str) -> Callable:
        calls = self._hooks[name]

        def tell(*args: Any) -> None:
            given = [Generation(*one) if isinstance(one, tuple) else one for one in args]
            for call in calls:
                call(*given)
        return tell

    # ---- the end ----

    def leave(self) -> None:
        """This worker leaves. Before the end of its loop over steps the others go on without it; else its work is
        finished. Done by itself at the end of a script whose exit code is 0."""
        global _current
        if not self.core.left:
            last = World(*self.core.world())
            self.core.leave()
            self._last = last._replace(rank=-1, local_rank=-1)
        self.loop.close()
        if _current is self:
            _current = None

    def stop(self) -> None:
        """This worker gives up: every call that waits, or is made later, raises Done."""
        self.core.stop()

    def __enter__(self) -> 'Run':
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        ended_well = error is None or (isinstance(error, SystemExit) and not error.code)
        if not ended_well and not self.core.left:
            self.core.stop()  # Its work is not finished.
        self.leave()

    def __repr__(self) -> str:
        world = self.world
        return f'<run of job {world.job!r}: rank {self.rank} of {self.size}, generation {world.generation}>'


DTYPES = {'f32': _muster.F32, 'f64': _muster.F64, 'bf16': _muster.BF16, 'f16': _muster.F16,
          'i32': _muster.I32, 'i64': _muster.I64, 'u8': _muster.U8,
          'float32': _muster.F32, 'float64': _muster.F64, 'bfloat16': _muster.BF16,
          'float16': _muster.F16, 'int32': _muster.I32, 'int64': _muster.I64, 'uint8': _muster.U8}


def dtype_number(dtype: str | int) -> int:
    """Of a type's name; also of numpy's and torch's."""
    if isinstance(dtype, int):
        return dtype
    name = str(getattr(dtype, 'name', dtype)).rpartition('.')[2]
    if name not in DTYPES:
        raise ValueError(f'there is no type {dtype!r}: f32, f64, bf16, f16, i32, i64 or u8')
    return DTYPES[name]


def _check_place() -> None:
    """`muster run` sets all of them, or none is there."""
    found = [name for name in _PLACE if os.environ.get(name)]
    if found and len(found) < len(_PLACE):
        missing = [name for name in _PLACE if name not in found]
        raise Invalid(_muster.EINVAL, f'{" and ".join(found)} is set, but {" and ".join(missing)} is not: only '
                      '`muster run` sets them, all three; unset them to be a job of one')


def join(**settings: Any) -> Run:
    """This process becomes a worker of the job that `muster run` started it for; started by itself it
    is a job of one. It is taken in once it does something that needs the others.

    address: "host:port" or "host" where others reach it. timeout: seconds that joining may take.
    steps: training ends after so many; 0: when the data does. digest_every: steps between comparisons
    of the workers' states. check_every: steps between those in which one slice is computed twice.
    step_timeout: seconds after which a worker that does not move is suspected. checkpoint_dir: a
    folder, or "orchestrator:"; checkpoint_every: steps; checkpoint_seconds. What is not said about
    checkpoints is as `muster run --ckpt-…` says."""
    return Run(**settings)


def current() -> Run | None:
    """The run of this process, if it has joined and not left."""
    return _current if _current is not None and _current._pid == os.getpid() else None


def _at_exit() -> None:
    """A script that ends well has finished its work; one that does not is missed by the others."""
    run = current()
    if run is None:
        return
    if getattr(sys, 'last_type', None) is not None:
        run.core.stop()  # By an exception: nothing of it is to be under way when its memory goes.
    run.core.leave_at_exit(run.meet_at_exit_ms)
    run.loop.close()


atexit.register(_at_exit)
