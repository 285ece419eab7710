"""`regard cost`: the command's body."""

import sys
from typing import Any

from rich.console import Console

from regard.files import write_whole


def run(*, seq: str, measure: bool, plot: str | None, json: str | None, **options: Any) -> None:
    """Print the cost as a table; measure it, draw it or write it as JSON where asked."""
    from regard.cost.counting import cost

    found = cost(seq=read_lengths(seq), **options)
    measured = found.measure() if measure else None
    if plot is not None:
        found.plot(plot)
        _say(f"wrote {plot}")
    if json == "-":
        sys.stdout.write((measured or found).to_json() + "\n")
        return
    if json is not None:
        write_whole(json, (measured or found).to_json() + "\n")
        _say(f"wrote {json}")
    console = Console()
    console.print(found.table())
    if measured is not None:
        console.print(measured.table())


def read_lengths(text: str) -> list[int]:
    """Lengths from text.

    >>> read_lengths("512, 2048")
    [512, 2048]
    """
    try:
        return [int(part.replace("_", "")) for part in text.split(",")]
    except ValueError:
        raise ValueError(f"--seq takes whole numbers with commas between, such as 512,2048, got {text!r}") from None


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
