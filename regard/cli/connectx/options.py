"""Options and output that several commands of `regard connectx` share."""

from typing import Annotated

from regard.cli.options import option, write_text

Size = Annotated[str, option("ROWSxCOLUMNSxINAROW", "Board size, and number of stones in a row that wins.")]
Rows = Annotated[int, option("N", "Number of rows of the board.")]
Columns = Annotated[int, option("N", "Number of columns of the board.")]
InARow = Annotated[int, option("N", "Number of stones in a row that wins.")]
Processes = Annotated[int, option("N", "Number of processes; 0 uses one per core.")]
JsonFile = Annotated[str | None, option("FILE", "Write the results as JSON to this file; - writes to stdout.")]


def read_size(text: str) -> tuple[int, int, int]:
    """Return rows, columns and stones in a row from text.

    >>> read_size("6x7x4")
    (6, 7, 4)
    """
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 3 or not all(part.strip().isdigit() for part in parts):
        raise ValueError(f"--size must be rows, columns and stones in a row, such as 6x7x4, got {text!r}")
    rows, columns, inarow = (int(part) for part in parts)
    return rows, columns, inarow


def write_json(results: object, file: str | None) -> None:
    """Write results as JSON to a file, or to stdout if the file is "-"."""
    from json import dumps

    write_text(dumps(results, indent=1, ensure_ascii=False), file)
