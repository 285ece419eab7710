"""Atomic file writes, folder locks, and reading of files that may be damaged; every package may use this module."""

import json
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

# Python types that JSON stores as another type.
STORED_AS: dict[Any, tuple[type, ...]] = {float: (float, int), tuple: (list, tuple)}


def write_atomic(file: str | os.PathLike[str], content: bytes | str) -> Path:
    """Write a file so that a reader sees either the old content or all of the new one; text is stored as UTF-8.

    The content goes to a temporary file in the same folder, which is then renamed.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_atomic(Path(folder) / "x.txt", "content").read_text()
    'content'
    """
    path = Path(file)
    # The name is chosen before the file exists, so that Ctrl-C at any line can still remove the file.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:  # after the rename the temporary file is already gone
        temporary.unlink(missing_ok=True)
        raise
    return path


def sync_folder(folder: Path) -> None:
    """Flush the folder's list of file names to the disk, on systems that support it."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def lock_folder(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold an exclusive lock on a folder, against other threads and other programs.

    The folder itself is locked (on Windows, a file .lock in it), so no lock file remains even if the program is killed.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with lock_folder(folder):
    ...         os.listdir(folder)
    []
    """
    if sys.platform == "win32":
        import msvcrt

        handle = os.open(Path(folder) / ".lock", os.O_RDWR | os.O_CREAT)
        msvcrt.locking(handle, msvcrt.LK_LOCK, 1)
    else:
        import fcntl

        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    try:
        yield
    finally:
        os.close(handle)


class DamagedFileError(ValueError):
    """A file is damaged, or is not of the kind that regard expected to read."""


@contextmanager
def explain_damage(file: str | os.PathLike[str], kind: str, advice: str) -> Iterator[None]:
    """Replace any error while a user's file is read by a `DamagedFileError`: libraries raise errors of many types.

    An OSError passes through, because it names the file and the cause.

    >>> with explain_damage("run.json", "a run", "train again"):
    ...     json.loads('{"step": ')
    Traceback (most recent call last):
    regard.files.DamagedFileError: run.json is not a run, or is damaged (Expecting value: line 1 column 10 (char 9)); \
train again
    """
    try:
        yield
    except (OSError, DamagedFileError):
        raise
    except Exception as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise DamagedFileError(f"{file} is not {kind}, or is damaged ({problem[:200]}); {advice}") from error


def read_json(file: str | os.PathLike[str], kind: str, advice: str, *keys: str) -> dict[str, Any]:
    """Return the JSON object in a file, which must have these keys; raise a `DamagedFileError` if it does not."""
    with explain_damage(file, kind, advice):
        content: dict[str, Any] = json.loads(Path(file).read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise TypeError(f"expected a JSON object, got {type(content).__name__}")
        if missing := [key for key in keys if key not in content]:
            raise ValueError(f"expected the keys {', '.join(keys)}, but {', '.join(missing)} is missing")
    return content


def dataclass_from_json(cls: type[T], values: Mapping[str, Any]) -> T:
    """Return an instance of a dataclass with these fields, whose types are checked first.

    >>> from regard.training import Settings
    >>> dataclass_from_json(Settings, {"steps": "many"})
    Traceback (most recent call last):
    TypeError: steps must be of type int | None, got 'many'
    """
    for name, hint in get_type_hints(cls).items():
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        types = [get_origin(kind) or kind for kind in kinds]
        allowed = tuple(stored for kind in types for stored in STORED_AS.get(kind, (kind,)))
        if name in values and not isinstance(values[name], allowed):
            raise TypeError(f"{name} must be of type {getattr(hint, '__name__', hint)}, got {values[name]!r}")
    return cls(**values)
