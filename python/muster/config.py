"""The job's settings: keys with values that everyone in a job, and people, can read, change and watch."""
from __future__ import annotations

from typing import Any, Iterator, NamedTuple

from . import _muster
from ._time import to_ms
from .errors import NotFound, Stale

ANY = _muster.ANY


class Setting(NamedTuple):
    """A key, its value, and at which version of the settings it was last changed."""

    key: str
    value: bytes | None  # None: it was removed
    version: int

    @property
    def text(self) -> str:
        """The value as text; "" if it was removed."""
        return (self.value or b'').decode()


class Config:
    """`run.config`. Timeouts are seconds; None: forever."""

    def __init__(self, core: _muster.Run) -> None:
        self._core = core

    def get(self, key: str, timeout: float | None = None) -> Setting | None:
        """None: there is no such key."""
        try:
            return Setting(*self._core.config_get(key, to_ms(timeout)))
        except NotFound:
            return None

    def list(self, prefix: str = '', timeout: float | None = None) -> dict[str, Setting]:
        """Those that begin with the prefix."""
        return {one[0]: Setting(*one) for one in self._core.config_list(prefix, to_ms(timeout))[1]}

    def put(self, key: str, value: Any, expect: int = ANY, timeout: float | None = None) -> int:
        """Sets a key if its version is the expected one; 0: if it does not exist. Its new version.
        Text, numbers and bytes. Conflict, Exists: it was changed meanwhile; read it again."""
        if isinstance(value, bool):
            value = 'true' if value else 'false'
        if isinstance(value, (str, int, float)):
            value = str(value).encode()
        return self._core.config_put(key, value, expect, to_ms(timeout))

    def remove(self, key: str, expect: int = ANY, timeout: float | None = None) -> None:
        """Removes a key, in the same way."""
        self._core.config_remove(key, expect, to_ms(timeout))

    def watch(self, key: str = '', after: int | None = None,
              timeout: float | None = None) -> tuple[int, tuple[Setting, ...]]:
        """Waits until something has changed after that version of the settings (None: after now): the
        key, or, if it ends with "/" or is "", any that begins with it. The version to go on from, and
        what changed, each key as it is now."""
        if after is None:
            after = self._core.config_list(key or '', to_ms(timeout))[0]
        version, changed = self._core.config_watch(key, after, to_ms(timeout))
        return version, tuple(Setting(*one) for one in changed)

    def changes(self, key: str = '') -> Iterator[Setting]:
        """Every change from now on, as it comes; ends never."""
        version = self._core.config_list(key)[0]
        while True:
            try:
                version, changed = self._core.config_watch(key, version)
            except Stale:  # Some have been forgotten: so all that are there.
                version, changed = self._core.config_list(key)
            for one in changed:
                yield Setting(*one)
