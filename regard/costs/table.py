"""The cost as a table: a row a part, a column a length."""

from collections.abc import Callable
from functools import partial
from io import StringIO
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.table import Table

from regard.costs.estimate import Cost, Estimate
from regard.costs.operations import PARTS
from regard.costs.units import bytes_text, operations_text, seconds_text

if TYPE_CHECKING:
    from regard.costs.measurement import Measured


def as_text(table: RenderableType, width: int = 80) -> str:
    """The table as plain text."""
    console = Console(file=StringIO(), width=width, color_system=None)
    console.print(table)
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def cost_table(cost: Cost) -> Table:
    """Operations of every part, then bytes of every part that has any, then pairs."""
    direction = "forward and backward" if cost.backward else "forward"
    table = _empty(f"Attention, {direction}: {cost.what}")
    table.add_column("operations", no_wrap=True)
    for one in cost.estimates:
        table.add_column(f"S = {one.seq:,}", justify="right", no_wrap=True)

    def row(name: str, text: Callable[[Estimate], str], style: str = "", end: bool = False) -> None:
        table.add_row(name, *(text(one) for one in cost.estimates), style=style, end_section=end)

    for part in PARTS:
        if any(one.operations[part].total for one in cost.estimates):
            row(part, partial(_share, part), end=part == PARTS[-1])
    if cost.backward:
        row("forward", lambda one: operations_text(one.total.forward))
        row("backward", lambda one: operations_text(one.total.backward))
    row("total", lambda one: operations_text(one.total.total), "bold", end=True)
    row("visible pairs", lambda one: _of_all(one.pairs.visible, one))
    row("computed pairs", lambda one: _of_all(one.pairs.computed, one))
    row("matmuls computed", lambda one: operations_text(one.matmul.total), end=True)
    row("bytes", lambda one: "", "dim")
    for part in cost.estimates[0].bytes:
        if any(one.bytes[part] for one in cost.estimates):
            row(part, partial(_held, part))
    row("peak of the call", lambda one: bytes_text(one.peak), "bold")
    return table


def measured_table(measured: "Measured") -> Table:
    """Predicted and measured side by side."""
    table = _empty(f"Predicted and measured: {measured.cost.what}")
    columns = ("S", "", "predicted", "measured", "pred. / meas.")
    for column, justify in zip(columns, ("right", "left", "right", "right", "right"), strict=True):
        table.add_column(column, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for one in measured.measurements:
        exact = one.predicted_operations == one.operations
        table.add_row(
            f"{one.seq:,}",
            "matmul operations",
            operations_text(one.predicted_operations),
            operations_text(one.operations),
            "exact" if exact else f"{one.operations_ratio:.4f}",
        )
        table.add_row(
            "", "peak bytes", bytes_text(one.predicted_peak), bytes_text(one.peak), f"{one.peak_ratio:.3f}"
        )  # fmt: skip
        speed = f"{operations_text(one.rate)}op/s"
        table.add_row("", "time", "", seconds_text(one.seconds), speed, end_section=True)
    return table


def _empty(title: str) -> Table:
    from rich import box

    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)


def _share(part: str, one: Estimate) -> str:
    """Operations, and their share of the whole."""
    count = one.operations[part].total
    return f"{operations_text(count)}  {count / one.total.total:4.0%}"


def _held(part: str, one: Estimate) -> str:
    return bytes_text(one.bytes[part])


def _of_all(count: int, one: Estimate) -> str:
    return f"{operations_text(count)}  {count / one.pairs.all:4.0%}"
