"""What the sub-commands share: mistakes said in one line, and values that are typed."""

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def said_plainly(command: str) -> Iterator[None]:
    """A mistake at a room's door, as one line and exit code 2."""
    try:
        yield
    except (ValueError, TypeError, KeyError, OSError, MemoryError) as error:
        complaint = error.args[0] if isinstance(error, KeyError) else error
        print(f"regard {command}: {complaint}", file=sys.stderr)  # noqa: T201
        raise typer.Exit(2) from error


def read_mask(text: str) -> object | None:
    """The mask that a `--mask` says, None for "none"."""
    if text.strip() == "none":
        return None
    from regard import masks

    return masks.parse(re.sub(r"\b(\w+):(\d+)", r"\1(\2)", text))  # window:3 spares the shell's quotes
