"""A file's text, again after every save."""

import time
from collections.abc import Iterator
from pathlib import Path


def watch_file(file: Path, interval: float = 0.25) -> Iterator[str]:
    """The text of the file at once and after each change, for ever; a change is another time or size.

    Looking every quarter of a second costs nothing and works on every file system and with every editor, also those
    that save by replacing the file: for the moment in which it is not there, we wait.
    """
    before = None
    while True:
        try:
            about = file.stat()
            now = about.st_mtime_ns, about.st_size, about.st_ino
            text = file.read_text(encoding="utf-8") if now != before else None
        except FileNotFoundError:
            text = None
        except UnicodeDecodeError as error:
            raise ValueError(f"{file} must be text in UTF-8: {error}") from error
        if text is not None:
            before = now
            yield text
        else:
            time.sleep(interval)
