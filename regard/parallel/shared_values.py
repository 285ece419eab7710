"""Values that many tasks need, such as a network: sent once to every machine, and loaded once in every process.

A `Shared` value is a small handle that travels with the work or with a task. It names the value by the hash of its
content, so equal values are stored once, and a process that has loaded a value does not load it again.
"""

import pickle
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

KEPT = 32  # values that a process keeps loaded

_loaded: OrderedDict[str, Any] = OrderedDict()


@dataclass(frozen=True)
class Shared:
    """Handle of a value, as `Engine.share` returns it.

    digest      hash of the content
    read        function of `place` that returns the pickled content, in the process that needs it
    place       where it is

    >>> from regard.parallel import LocalEngine
    >>> with LocalEngine(2) as engine:
    ...     engine.share([1, 2]).value()
    [1, 2]
    """

    digest: str
    read: Callable[[Any], bytes]
    place: Any

    def value(self) -> Any:
        """Return the value; a process loads it at the first call."""
        if self.digest not in _loaded:
            _loaded[self.digest] = pickle.loads(self.read(self.place))
            while len(_loaded) > KEPT:
                _loaded.popitem(last=False)
        _loaded.move_to_end(self.digest)
        return _loaded[self.digest]


@dataclass(frozen=True)
class Unsent:
    """A value of this process, for work that does not leave it."""

    content: Any
    digest: str = ""

    def value(self) -> Any:
        """Return the value itself."""
        return self.content


Handle = Shared | Unsent
