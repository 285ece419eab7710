"""What the plots of a result show: numbers with their intervals, and words in both languages; nothing is drawn here.

One chart is drawn in two places: on paper by matplotlib (drawing.py), on the screen by the lab.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, NamedTuple

from regard.languages import Bilingual

UNSAID: Bilingual = {"en": "", "zh": ""}


class Point(NamedTuple):
    """The mean over seeds at a place, with its 95 % interval; no interval of one seed."""

    x: float | str
    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Series:
    """A line, or the bars of one colour."""

    name: Bilingual
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Level:
    """A thin line across, such as that of chance; at one place alone if `x` names it."""

    height: float
    name: Bilingual
    x: str | None = None


@dataclass(frozen=True)
class Plot:
    """Lines along numbers, or bars at names.

    title       what stands above it
    along       what the numbers along it are
    beside      what its heights are; what is unsaid is left out
    places      what the names along it are called, for bars
    log         "x", "y" or "xy": logarithmic axes; along x by factors of two
    shares      whether the height goes from 0 to 100 %
    lying       whether bars lie, for long names
    levels      thin lines across
    mark        where an upright line stands
    """

    kind: Literal["lines", "bars"]
    series: tuple[Series, ...]
    title: Bilingual = field(default_factory=lambda: UNSAID)
    along: Bilingual = field(default_factory=lambda: UNSAID)
    beside: Bilingual = field(default_factory=lambda: UNSAID)
    places: Mapping[str, Bilingual] = field(default_factory=dict)
    log: str = ""
    shares: bool = False
    lying: bool = False
    levels: tuple[Level, ...] = ()
    mark: float | None = None


@dataclass(frozen=True)
class Table:
    """Words side by side, where there is nothing to plot."""

    columns: tuple[Bilingual, ...]
    rows: tuple[tuple[Bilingual, ...], ...]
    kind: Literal["table"] = "table"


@dataclass(frozen=True)
class Chart:
    """The plots of a result, side by side."""

    title: Bilingual
    panels: tuple[Plot | Table, ...]

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Draw it on paper as .png, .svg, .pdf or .html."""
        from regard.claims.charts.drawing import picture

        return picture(self).save(file)
