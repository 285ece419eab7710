"""Watch a file and read it after every save."""

import time
from collections.abc import Iterator
from pathlib import Path


def watch_file(file: Path, interval: float = 0.25) -> Iterator[str]:
    """Yield the text of the file at once and after each change, without end.

    The file's time, size and inode are polled, which works on every file system and with every editor, also with those
    that save by replacing the file. While the file does not exist, wait.
    """
    previous = None
    while True:
        try:
            status = file.stat()
            current = status.st_mtime_ns, status.st_size, status.st_ino
            text = file.read_text(encoding="utf-8") if current != previous else None
        except FileNotFoundError:
            text = None
        except UnicodeDecodeError as error:
            raise ValueError(f"{file} must be text in UTF-8: {error}") from error
        if text is not None:
            previous = current
            yield text
        else:
            time.sleep(interval)
