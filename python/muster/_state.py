"""run.state: plain values that newcomers and checkpoints get, too."""
from collections.abc import MutableMapping

from . import _codec


class State(MutableMapping):
    """A mapping of names to plain values: None, bool, int, float, str, bytes, lists, dicts.

    Part of the state of a run, as the model is: a newcomer gets it from the others, and a checkpoint
    holds it. So every worker must change it alike, from what all of them know (the committed loss,
    an accuracy that each has computed), never from what one alone has (its rank, the time). Workers
    whose states differ are found out and stopped.

    What can't be kept is refused when it is set. A list or dict that was put in may be changed in
    place; it is looked at again when the state is saved."""

    def __init__(self, values=None):
        self._values = {} if values is None else values

    def __getitem__(self, name):
        return self._values[name]

    def __setitem__(self, name, value):
        if type(name) is not str:
            raise TypeError(f'names in run.state are strings, not {type(name).__name__}')
        _codec.encode(value, path=f'run.state[{name!r}]')
        self._values[name] = value

    def __delitem__(self, name):
        del self._values[name]

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def __repr__(self):
        return f'State({self._values!r})'

    def save(self):
        """Its bytes, for those who keep it: the same on every worker."""
        return _codec.encode(self._values, path='run.state')

    def load(self, data):
        """Becomes what save() gave elsewhere."""
        values = _codec.decode(data)
        if type(values) is not dict:
            raise ValueError('what was kept as run.state is none')
        self._values.clear()
        self._values.update(values)
