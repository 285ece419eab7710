"""Files written whole or not at all. Every room that writes one uses this; it is no room and imports none."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(file: str | os.PathLike[str], content: bytes | str) -> Path:
    """Write to a temporary name beside the file, then rename: a reader never sees half of it. Text is UTF-8.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "x.txt", "whole").read_text()
    'whole'
    """
    path = Path(file)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp's own is for the owner alone
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C may come when it is renamed already
        Path(temporary).unlink(missing_ok=True)
        raise
    return path


@contextmanager
def alone_in(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold off whoever else is about to read and then change a file in this folder, in any thread or program.

    The folder itself is locked where it can be (not on Windows), so nothing is left behind, not even by a program that
    is killed.

    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with alone_in(folder):
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
