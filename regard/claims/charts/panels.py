"""Panels of a chart: line plots, bar plots and tables, as data with labels in both languages.

`drawing.py` draws them with matplotlib; the lab draws the same data as SVG in the browser.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from regard.languages import Bilingual

EMPTY: Bilingual = {"en": "", "zh": ""}


class Point(NamedTuple):
    """Mean over the seeds at one x, with its 95 % interval; `low` and `high` are None for a single seed."""

    x: float | str
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Series:
    """One line, or the bars of one colour."""

    name: Bilingual
    points: tuple[Point, ...]


@dataclass(frozen=True)
class ReferenceLine:
    """A thin line at a value of the y axis, such as the accuracy of guessing.

    category    draw it at this category of a bar plot only; None: across the whole plot
    """

    value: float
    name: Bilingual
    category: str | None = None


@dataclass(frozen=True)
class Plot:
    """Lines over numbers, or bars over categories.

    title               text above the plot
    x_label, y_label    axis labels; an empty label is not drawn
    categories          label of each category on the x axis of a bar plot
    log                 axes with a logarithmic scale: "x", "y" or "xy"; the x axis has base 2
    percent             whether the values are shares, drawn from 0 to 100 %
    horizontal          whether the bars are horizontal, for long category names
    reference_lines     thin lines at constant values
    vertical_line       x of a dashed vertical line
    """

    kind: Literal["lines", "bars"]
    series: tuple[Series, ...]
    title: Bilingual = field(default_factory=lambda: EMPTY)
    x_label: Bilingual = field(default_factory=lambda: EMPTY)
    y_label: Bilingual = field(default_factory=lambda: EMPTY)
    categories: Mapping[str, Bilingual] = field(default_factory=dict)
    log: str = ""
    percent: bool = False
    horizontal: bool = False
    reference_lines: tuple[ReferenceLine, ...] = ()
    vertical_line: float | None = None


@dataclass(frozen=True)
class Table:
    """A table of texts, for results without numbers to plot."""

    columns: tuple[Bilingual, ...]
    rows: tuple[tuple[Bilingual, ...], ...]
    kind: Literal["table"] = "table"
