"""Atomic file writes, folder locks, and reading of files that may be damaged; every package may use this module."""

import hashlib
import io
import json
import math
import os
import secrets
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

# Python types that JSON stores as another type.
STORED_AS: dict[Any, tuple[type, ...]] = {float: (float, int), tuple: (list, tuple)}
ARRAY_END = b"regard sha256 "  # stands between an array and its checksum


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


@contextmanager
def lock_run(folder: str | os.PathLike[str], name: str = ".lock") -> Iterator[None]:
    """Hold the lock file `name` of a run's folder; raise a ValueError that names the process that holds it already.

    The kernel releases the lock when the process ends, however it ends. A folder in which no file can be created or
    locked, such as one on some network file systems, is not locked.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, lock_run(folder), lock_run(folder):
    ...     pass  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ValueError: ... is in use by process ... since ...; wait until it ends, or stop it
    """
    path = Path(folder) / name
    handle = None
    try:
        while handle is None:
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            _lock_without_waiting(handle)
            # A process that ends removes its file; a lock on a removed file protects nothing.
            if not path.exists() or os.fstat(handle).st_ino != path.stat().st_ino:
                os.close(handle)
                handle = None
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} since {time.strftime('%Y-%m-%d %H:%M:%S')}".encode())
    except (BlockingIOError, PermissionError):
        if handle is not None:
            holder = os.read(handle, 200).decode(errors="replace") or "another process"
            os.close(handle)
            raise ValueError(f"{folder} is in use by {holder}; wait until it ends, or stop it") from None
    except OSError:  # no locks here
        pass
    try:
        yield
    finally:
        if handle is not None:
            with suppress(OSError):  # Windows removes no open file
                path.unlink(missing_ok=True)
            os.close(handle)


def _lock_without_waiting(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(handle, 1 << 20, os.SEEK_SET)  # beyond the text, which other processes read
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
        os.lseek(handle, 0, os.SEEK_SET)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


class DamagedFileError(ValueError):
    """A file is damaged, or is not of the kind that regard expected to read."""


@contextmanager
def explain_damage(file: str | os.PathLike[str], kind: str, advice: str) -> Iterator[None]:
    """Replace any error while a user's file is read by a `DamagedFileError`: libraries raise errors of many types.

    An OSError that names a file passes through.

    >>> with explain_damage("run.json", "a run", "train again"):
    ...     json.loads('{"step": ')
    Traceback (most recent call last):
    regard.files.DamagedFileError: run.json is not a run, or is damaged (Expecting value: line 1 column 10 (char 9)); \
train again
    """
    try:
        yield
    except DamagedFileError:
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error) or type(error).__name__
        problem = " ".join(problem[:200].split())  # on one line
        raise DamagedFileError(f"{file} is not {kind}, or is damaged ({problem}); {advice}") from error


def json_checksum(content: Mapping[str, Any]) -> str:
    """Return a checksum of JSON values, which does not depend on the order of keys or on spaces."""
    values = json.loads(json.dumps({key: value for key, value in content.items() if key != "checksum"}))
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:32]


def write_json(file: str | os.PathLike[str], content: Mapping[str, Any]) -> Path:
    """Write a JSON object with its checksum, which `read_json` verifies."""
    return write_atomic(file, json.dumps(with_checksum(content), indent=1, ensure_ascii=False) + "\n")


def with_checksum(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object with its checksum as last entry."""
    return {**content, "checksum": json_checksum(content)}


def json_line(content: Mapping[str, Any]) -> str:
    """Return a JSON object with its checksum as a line of text, for a file to which rows are appended."""
    return json.dumps(with_checksum(content), ensure_ascii=False) + "\n"


def verify_json(content: Any, *keys: str) -> dict[str, Any]:
    """Return a JSON object without its checksum; raise an error if it does not match, or if one of the keys is missing.

    An object without a checksum was written by an earlier version or edited by hand.
    """
    if not isinstance(content, dict):
        raise TypeError(f"expected a JSON object, got {type(content).__name__}")
    if content.pop("checksum", None) not in (None, json_checksum(content)):
        raise ValueError('the checksum does not match; if you edited the file, remove its entry "checksum"')
    if missing := [key for key in keys if key not in content]:
        raise ValueError(f"expected the keys {', '.join(keys)}, but {', '.join(missing)} is missing")
    return content


def read_json(file: str | os.PathLike[str], kind: str, advice: str, *keys: str) -> dict[str, Any]:
    """Return the JSON object in a file, which must have these keys; raise a `DamagedFileError` if it does not."""
    with explain_damage(file, kind, advice):
        return verify_json(parse_json(Path(file).read_bytes()), *keys)


def parse_json(text: str | bytes) -> Any:
    """Return JSON values; other than in Python's json module, NaN and a key that occurs twice are errors.

    >>> parse_json('{"step": 1, "step": 2}')
    Traceback (most recent call last):
    ValueError: the key 'step' occurs twice
    """
    text = text.decode() if isinstance(text, bytes) else text
    return json.loads(text, object_pairs_hook=_dict_of_pairs, parse_constant=_constant)


def _constant(name: str) -> float:
    if name != "Infinity":  # the best loss before the first evaluation
        raise ValueError(f"{name} is no number of regard")
    return math.inf


def _dict_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {next(name for name in content if names.count(name) > 1)!r} occurs twice")
    return content


def write_array(file: str | os.PathLike[str], array: "NDArray[Any]") -> Path:
    """Write a NumPy array as an .npy file that ends with its checksum, which `read_array` verifies.

    >>> import numpy as np
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = write_array(Path(folder) / "x.npy", np.arange(3))
    ...     read_array(file), np.load(file)
    (array([0, 1, 2]), array([0, 1, 2]))
    """
    import numpy as np

    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    content = stream.getvalue()
    return write_atomic(file, content + ARRAY_END + hashlib.sha256(content).digest())


def read_array(file: str | os.PathLike[str]) -> "NDArray[Any]":
    """Return the array in an .npy file; raise an error if it is damaged.

    A file without a checksum was written by an earlier version or by NumPy.
    """
    import numpy as np

    content = Path(file).read_bytes()
    content, end, checksum = content[: -32 - len(ARRAY_END)], content[-32 - len(ARRAY_END) : -32], content[-32:]
    if end != ARRAY_END:
        content += end + checksum
    elif hashlib.sha256(content).digest() != checksum:
        raise ValueError("the array does not match its checksum")
    stream = io.BytesIO(content)
    # The header is read first, because np.load would allocate any size that a damaged header asks for.
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if (size := len(content) - stream.tell()) != (expected := math.prod(shape) * dtype.itemsize):
        raise ValueError(f"expected {expected} bytes after the header, got {size}")
    return np.load(io.BytesIO(content), allow_pickle=False)


def dataclass_from_json(cls: type[T], values: Mapping[str, Any]) -> T:
    """Return an instance of a dataclass with these fields, whose types are checked first.

    >>> from regard.training import Settings
    >>> dataclass_from_json(Settings, {"steps": "many"})
    Traceback (most recent call last):
    TypeError: steps must be of type int | None, got 'many'
    """
    for name, hint in get_type_hints(cls).items():
        kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        kinds = (
            tuple(type(choice) for kind in kinds if get_origin(kind) is Literal for choice in get_args(kind)) + kinds
        )
        types = [get_origin(kind) or kind for kind in kinds if get_origin(kind) is not Literal]
        allowed = tuple(stored for kind in types for stored in STORED_AS.get(kind, (kind,)))
        value = values.get(name)
        if name in values and (not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed)):
            raise TypeError(f"{name} must be of type {getattr(hint, '__name__', hint)}, got {values[name]!r}")
    return cls(**values)
