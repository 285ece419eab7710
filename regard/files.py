"""Files written whole or not at all. Every room that writes one uses this; it is no room and imports none."""

import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_whole(file: str | os.PathLike[str], content: bytes | str) -> Path:
    """Write to a temporary name beside the file, then rename: a reader never sees half of it. Text is UTF-8.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "x.txt", "whole").read_text()
    'whole'
    """
    path = Path(file)
    # The name is known before the file is there: whenever Ctrl-C comes, it can be taken away again.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C may come when it is renamed already
        temporary.unlink(missing_ok=True)
        raise
    return path


@contextmanager
def alone_in(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold off whoever else is about to read and then change a file in this folder, in any thread or program.

    The folder itself is locked where it can be (not on Windows), so nothing is left behind, not even by a program that
    is killed.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
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
