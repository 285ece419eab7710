"""Functions compiled by numba, with the machine code cached on disk.

`@compiled` compiles a function at its first call and stores the machine code beside the source, so that only the first
process on a machine waits. Compiled functions of the board game also run as plain Python: `uncompiled(function)` is the
plain version, for boards that need more than 64 bits. Where numba is missing (an exported Kaggle player on a bare
machine) `compiled` returns the function unchanged.
"""

import builtins
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, overload

numba: Any
try:
    numba = importlib.import_module("numba")
except ImportError:
    numba = None

F = TypeVar("F", bound=Callable[..., Any])


@overload
def compiled(function: F) -> F: ...
@overload
def compiled(**options: Any) -> Callable[[F], F]: ...
def compiled(function: F | None = None, **options: Any) -> Any:
    """Compile a function with `numba.njit(**options)` at its first call; unchanged where numba is missing.

    If tests have wrapped the function in shape checks, the function inside the wrapper is compiled.
    """
    if function is None:
        return partial(compiled, **options)
    if numba is None:
        return function
    _announce_board_game()
    function = inspect.unwrap(function)
    # A function that was executed from a string (an exported player) has no file to put the cache beside.
    options.setdefault("cache", os.path.exists(function.__code__.co_filename))
    return _invalidate_with_package(numba.njit(**options)(function))


def _invalidate_with_package(machine: F) -> F:
    """Make the on-disk cache of a compiled function depend on every source file of its package.

    By itself numba checks only the file that defines the function, but the machine code also contains its callees.
    """
    with suppress(AttributeError):  # the function has no cache, or this version of numba has another cache class
        cache_file: Any = machine._cache._cache_file  # type: ignore[attr-defined]
        cache_file._source_stamp = [cache_file._source_stamp, *_source_stamps(machine.__code__.co_filename)]
    return machine


def _source_stamps(file: str) -> list[tuple[int, int]]:
    """Modification times and sizes of all sources of the package `regard.<package>` that contains the file.

    A file outside of any package is checked together with its folder.
    """
    folder = Path(file).parent
    while (folder.parent / "__init__.py").exists() and (folder.parent.parent / "__init__.py").exists():
        folder = folder.parent
    return _stamps_in(folder)


@cache
def _stamps_in(folder: Path) -> list[tuple[int, int]]:
    states = [path.stat() for path in sorted(folder.rglob("*.py"))]
    return [(state.st_mtime_ns, state.st_size) for state in states]


@cache
def uncompiled(function: F) -> F:
    """Return the plain Python version of a function and of all compiled functions that it calls.

    It is slower and accepts integers of any size.

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


@contextmanager
def announce_compilation(subject: str) -> Iterator[None]:
    """Print one line on stderr if numba compiles anything inside this context, since that takes seconds."""
    from numba.core import event

    with event.install_listener("numba:compile", _announcer(subject)):
        yield


@cache
def _announce_board_game() -> None:
    """Print one line on stderr when numba first compiles a function of the board game."""
    from numba.core import event

    event.register("numba:compile", _announcer("the board game", "connectx"))  # type: ignore[no-untyped-call]


def _announcer(subject: str, package: str | None = None) -> Any:
    """Return a numba listener that prints one line at the first compilation (in `regard.<package>`, if given)."""
    from numba.core import event

    class Announcer(event.Listener):
        announced = False

        def on_start(self, compilation: Any) -> None:
            module = compilation.data["dispatcher"].py_func.__module__.split(".")
            # An exported player prints nothing: the names of its modules do not begin with "regard".
            if not self.announced and (package is None or module[:2] == ["regard", package]):
                self.announced = True
                sys.stderr.write(f"regard: compiling {subject} for this machine (some seconds, only once) …\n")

        def on_end(self, compilation: Any) -> None:
            pass

    return Announcer()
