"""What a file needs beside being written whole: that its name, too, is on the disk."""

import os
from pathlib import Path


def settle(folder: Path) -> None:
    """Make sure that the folder's list of names is on the disk (where the system can)."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
