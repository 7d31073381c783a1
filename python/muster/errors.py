"""What goes wrong, as exceptions: one class for each status of libmuster, all of them `Error`.

`error.status` is the number, `error.name` its name in C ("MU_EPEER"), and the text says what
happened, to what, and what to do. Those that mean what an exception of Python means are that one
too: a `Timeout` is a `TimeoutError`.
"""
from __future__ import annotations


class Error(Exception):
    """A call failed. `lost_rank`: of a collective, who was lost or differs; -1: nobody, or unknown."""

    name = 'MU_?'
    lost_rank = -1

    def __init__(self, status: int, text: str = '') -> None:
        super().__init__(status, text)
        self.status = status
        self.text = text

    def __str__(self) -> str:
        return self.text or self.name


class OutOfMemory(Error, MemoryError):
    """MU_ENOMEM"""


class Invalid(Error, ValueError):
    """MU_EINVAL: an argument, or a call at this moment, makes no sense."""


class InputOutput(Error, OSError):
    """MU_EIO"""


class Corrupt(Error):
    """MU_ECORRUPT: stored data is damaged."""


class VersionMismatch(Error):
    """MU_EVERSION: the other side speaks another version."""


class Limit(Error):
    """MU_ELIMIT: a limit was reached."""


class Exists(Error):
    """MU_EEXIST: it exists already."""


class NotFound(Error, KeyError):
    """MU_ENOENT: there is no such thing."""


class Stale(Error):
    """MU_ESTALE: that generation is no longer current; this worker was left out."""


class Conflict(Error):
    """MU_ECONFLICT: it was changed by someone else meanwhile."""


class Busy(Error):
    """MU_EBUSY: it is in use."""


class ProtocolError(Error):
    """MU_EPROTO: the other side broke the protocol."""


class TryAgain(Error):
    """MU_EAGAIN: not now."""


class Timeout(Error, TimeoutError):
    """MU_ETIMEDOUT: it took too long."""


class PeerLost(Error, ConnectionError):
    """MU_EPEER: a peer was lost. `run.regroup()`, then make the call again."""


class OrderError(Error):
    """MU_EORDER: the ranks did not make the same calls in the same order."""


class Done(Error):
    """MU_EDONE: the job is done, or this worker has stopped."""


class Refused(Error):
    """MU_EREFUSED: this worker can't take part."""


class Left(Error):
    """MU_ELEFT: this worker has left, and the job goes on."""


class Diverged(Error):
    """MU_EDIVERGED: the workers' states are not the same."""


BY_STATUS: dict[int, type[Error]] = {}

for _status, _name, _class in (
        (-1, 'MU_ENOMEM', OutOfMemory),
        (-2, 'MU_EINVAL', Invalid),
        (-3, 'MU_EIO', InputOutput),
        (-4, 'MU_ECORRUPT', Corrupt),
        (-5, 'MU_EVERSION', VersionMismatch),
        (-6, 'MU_ELIMIT', Limit),
        (-7, 'MU_EEXIST', Exists),
        (-8, 'MU_ENOENT', NotFound),
        (-9, 'MU_ESTALE', Stale),
        (-10, 'MU_ECONFLICT', Conflict),
        (-11, 'MU_EBUSY', Busy),
        (-12, 'MU_EPROTO', ProtocolError),
        (-13, 'MU_EAGAIN', TryAgain),
        (-14, 'MU_ETIMEDOUT', Timeout),
        (-15, 'MU_EPEER', PeerLost),
        (-16, 'MU_EORDER', OrderError),
        (-17, 'MU_EDONE', Done),
        (-18, 'MU_EREFUSED', Refused),
        (-19, 'MU_ELEFT', Left),
        (-20, 'MU_EDIVERGED', Diverged),
):
    _class.name = _name
    BY_STATUS[_status] = _class


def make(status: int, text: str, lost_rank: int = -1) -> Error:
    """The exception for a status."""
    error = BY_STATUS.get(status, Error)(status, text)
    if lost_rank >= 0:
        error.lost_rank = lost_rank
    return error
