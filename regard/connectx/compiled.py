"""Functions that numba compiles, once for each machine.

`@compiled` keeps the machine code on disk beside the source, so that only the first call ever waits, and that call
says what it is doing. The functions are written so that they mean the same in plain Python: `uncompiled(function)`
is that, for boards that need more than 64 bits. Where numba is missing (an exported player on a bare machine)
`compiled` changes nothing.
"""

import builtins
import importlib
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from types import FunctionType
from typing import Any, TypeVar

numba: Any
try:
    numba = importlib.import_module("numba")
except ImportError:
    numba = None

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The function as machine code; as it is where there is no numba."""
    if numba is None:
        return function
    _listen()
    # A function that came from no file (an exported player is executed from a string) has no place for a cache.
    machine: F = numba.njit(cache=os.path.exists(function.__code__.co_filename))(function)
    return fresh(machine)


def fresh(machine: F) -> F:
    """The compiled function, with a cache on disk that is out of date when any file beside its own has changed.

    Numba looks only at the file where a function stands; but what it calls is compiled into it.
    """
    with suppress(AttributeError):  # without a cache, or in a numba that keeps it otherwise, all is as it was
        file: Any = machine._cache._cache_file  # type: ignore[attr-defined]
        folder = os.path.dirname(machine.__code__.co_filename)
        states = [os.stat(os.path.join(folder, name)) for name in sorted(os.listdir(folder)) if name.endswith(".py")]
        file._source_stamp = [file._source_stamp, *((state.st_mtime_ns, state.st_size) for state in states)]
    return machine


@cache
def uncompiled(function: F) -> F:
    """The function in plain Python, all the way down: slower, with integers of any size.

    >>> @compiled
    ... def above(bits):
    ...     return bits << 1
    >>> uncompiled(above)(1 << 100) == 1 << 101
    True
    """
    python = getattr(function, "py_func", function)
    used = {name: python.__globals__[name] for name in python.__code__.co_names if name in python.__globals__}
    plain = {name: uncompiled(value) if hasattr(value, "py_func") else value for name, value in used.items()}
    plain["__builtins__"] = builtins
    return FunctionType(python.__code__, plain, python.__name__, python.__defaults__)  # type: ignore[return-value]


@cache
def _listen() -> None:
    """Say it, once, when numba begins to compile something of ours."""
    from numba.core import event

    class Saying(event.Listener):
        said = False

        def on_start(self, happening: Any) -> None:
            function = happening.data["dispatcher"].py_func
            ours = function.__module__.startswith("regard.") and ".connectx." in function.__module__
            if ours and not self.said:  # an exported player has other names for its modules, and says nothing
                Saying.said = True
                sys.stderr.write("regard: compiling the board game for this machine (some seconds, only once) …\n")

        def on_end(self, happening: Any) -> None:
            pass

    event.register("numba:compile", Saying())  # type: ignore[no-untyped-call]
