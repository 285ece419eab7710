"""Files written whole or not at all. Every room that writes one uses this; it is no room and imports none."""

import os
import tempfile
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
    except BaseException:
        os.unlink(temporary)
        raise
    return path
