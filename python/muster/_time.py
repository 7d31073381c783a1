"""Timeouts: seconds in Python, milliseconds below."""
from __future__ import annotations

import math


def to_ms(seconds: float | None) -> int:
    """None: forever."""
    if seconds is None:
        return -1
    if seconds != seconds or seconds < 0:
        raise ValueError(f'a timeout is a number of seconds from 0, or None: not {seconds!r}')
    return -1 if seconds == math.inf else math.ceil(seconds * 1000)
