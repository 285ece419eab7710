"""Optional dependencies: which are installed, and the error that names the extra of a missing one.

`pip install regard` installs what attention, watching, costs and pictures need. The other dependencies belong to the
extras of pyproject.toml; docs/dependencies.md lists them.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec


class MissingExtraError(ImportError):
    """A package that belongs to an extra of regard is not installed."""

    def __init__(self, subject: str, package: str, extra: str) -> None:
        super().__init__(f'{subject} needs the package {package}: pip install "regard[{extra}]"', name=package)


def installed(package: str) -> bool:
    """Return whether a package can be imported, without importing it.

    >>> installed("json"), installed("no_such_package")
    (True, False)
    """
    if package in sys.modules:  # None forbids the import
        return sys.modules[package] is not None
    return _on_disk(package)


@cache
def _on_disk(package: str) -> bool:
    """Return whether Python finds a package that is not imported yet; the search takes 0.3 ms."""
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # blocked by a finder
        return False


def require(extra: str, subject: str, *packages: str) -> None:
    """Raise an ImportError that names the extra if one of the packages is not installed.

    >>> require("lab", "the lab", "json", "no_such_package")
    Traceback (most recent call last):
    regard.extras.MissingExtraError: the lab needs the package no_such_package: pip install "regard[lab]"
    """
    for package in packages:
        if not installed(package):
            raise MissingExtraError(subject, package, extra)


@contextmanager
def needs(extra: str, subject: str) -> Iterator[None]:
    """Turn a failed import of another package inside this context into an ImportError that names the extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package in ("", "regard"):
            raise
        raise MissingExtraError(subject, package, extra) from error


@contextmanager
def games_installed() -> Iterator[None]:
    """Raise an ImportError that names the extra `games` if numba or platformdirs is missing."""
    require("games", "Connect Four", "numba", "platformdirs")
    yield
