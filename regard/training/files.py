"""Files written whole or not at all."""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes) -> Path:
    """Write to a temporary name beside the path, make sure it is on the disk, then rename.

    A reader sees the old file or the new one, also when the machine stops in between.
    """
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)  # mkstemp's own is for the owner alone
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def settle(folder: Path) -> None:
    """Make sure that the folder's list of names is on the disk (where the system can)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
