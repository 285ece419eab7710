"""The table of all heads for the terminal. Paths of modules are never cut off."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

SHORTEST_LINE = 8  # characters of a path on one line, where the terminal is narrow
COMPACT: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": 0, "pad_edge": False, "title_justify": "left"}
NUMBERS = ("entropy", "distance", "spread")
WEIGHTS = {"first": "sink", "previous": "previous", "own": "own", "next": "next"}  # heading and key in the rows


def head_table(calls: Sequence[str], rows: Sequence[dict[str, Any]], remarks: Sequence[str]) -> Table:
    """Return a table with one row per head.

    calls       the path of each call's module
    rows        from `Recording.summary`
    remarks     lines to show below the table
    """
    pattern, names = abbreviate_call_names(calls)
    shortened = pattern != "*"
    title = "What each head attends to, on average" + (f"\nmodule: {pattern}" if shortened else "")
    table = Table(
        title=Text(title, overflow="fold"),
        caption=Text("\n".join(remarks), overflow="fold") if remarks else None,
        caption_justify="left",
        caption_style="default",
        **COMPACT,
    )
    weights = dict(WEIGHTS)
    if any(row["no_key"] >= 0.005 for row in rows):
        weights["no key"] = "no_key"
    some_empty = any(row["empty"] for row in rows)
    table.add_column("*" if shortened and "*" in pattern else "module")
    for column in ("head", *NUMBERS, *weights, *["empty"] * some_empty):
        table.add_column(column, justify="right", overflow="fold")
    call = -1
    for row in rows:
        name: ModulePath | str = ""
        if row["head"] == 0:
            call += 1
            name = ModulePath(names[call])
            table.add_section()
        numbers = ["?" if row[key] is None else f"{row[key]:.2f}" for key in NUMBERS]
        cells = [_format_weight(row.get(key)) for key in weights.values()]
        empty = [f"{row['empty']:.0%}" if row["empty"] else ""] * some_empty
        table.add_row(name, f"{call}:{row['head']}", *numbers, *cells, *empty)
    return table


class ModulePath:
    """A module's path in a terminal table. Where it does not fit, it continues on another line, after a dot if it can.

    >>> ModulePath("encoder.layers.11.self_attention").lines(16)
    ['encoder.layers.', '11.', 'self_attention']
    """

    def __init__(self, path: str) -> None:
        self.path = path

    def lines(self, width: int) -> list[str]:
        """Return the path in lines of at most `width` characters."""
        lines = [""]
        for part in re.findall(r"[^.]+\.?|\.", self.path):
            pieces = [part[i : i + width] for i in range(0, len(part), width)]
            if len(lines[-1]) + len(pieces[0]) <= width:
                lines[-1] += pieces.pop(0)
            lines += pieces
        return [line for line in lines if line]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        yield Text("\n".join(self.lines(max(1, options.max_width))))

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(SHORTEST_LINE, len(self.path)), len(self.path))


def abbreviate_call_names(names: Sequence[str]) -> tuple[str, list[str]]:
    """Return the common pattern of the calls' names, with * where they differ, and the differing part of each.

    >>> abbreviate_call_names(["model.layers.0.attn", "model.layers.1.attn", "model.layers.1.attn"])
    ('model.layers.*.attn', ['0', '1', '1 #2'])
    >>> abbreviate_call_names(["encoder.attn", "decoder.attn"])
    ('*.attn', ['encoder', 'decoder'])
    """
    paths = [name.split(".") if name else ["model"] for name in names]
    shortest = min(map(len, paths))
    prefix = _common_prefix(paths, shortest)
    suffix = _common_prefix([path[::-1] for path in paths], shortest - prefix)
    counts: dict[str, int] = {}
    short_names = []
    for path in paths:
        name = ".".join(path[prefix : len(path) - suffix]) or path[-1]
        counts[name] = counts.get(name, 0) + 1
        short_names.append(name if counts[name] == 1 else f"{name} #{counts[name]}")
    middle = [] if prefix + suffix == max(map(len, paths)) else ["*"]
    return ".".join([*paths[0][:prefix], *middle, *paths[0][len(paths[0]) - suffix :]]), short_names


def _common_prefix(paths: list[list[str]], limit: int) -> int:
    """Return how many parts at the start are the same in all paths, at most `limit`."""
    count = 0
    while count < limit and len({path[count] for path in paths}) == 1:
        count += 1
    return count


def _format_weight(weight: float | None) -> str:
    """Format a mean weight; 0.5 and more is bold and marked, to be visible without colour too."""
    if weight is None:
        return "?  "
    return f"[bold]{weight:.2f} ◂[/bold]" if weight >= 0.5 else f"{weight:.2f}  "
