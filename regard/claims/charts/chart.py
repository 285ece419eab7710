"""Chart of a result: a title and its panels, side by side."""

import os
from dataclasses import dataclass
from pathlib import Path

from regard.claims.charts.drawing import draw_panels
from regard.claims.charts.panels import Plot, Table
from regard.languages import Bilingual
from regard.pictures import Picture


@dataclass(frozen=True)
class Chart:
    """Panels side by side under one title.

    title       title in both languages
    panels      plots and tables, drawn side by side

    >>> from regard.claims import claim_named, find
    >>> chart = claim_named("mask").draw(find("mask").rows)
    >>> chart.title["en"], len(chart.panels)
    ('A decoder trained with and without the causal mask', 1)
    """

    title: Bilingual
    panels: tuple[Plot | Table, ...]

    def picture(self) -> Picture:
        """Return the chart drawn with matplotlib, labelled in English."""
        return draw_panels(self.title["en"], self.panels)

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Draw the chart, write it as .png, .svg, .pdf or .html, and return the path."""
        return self.picture().save(file)
