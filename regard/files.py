"""Atomic file writes, folder locks and folder synchronisation; every package may use this module."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


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
