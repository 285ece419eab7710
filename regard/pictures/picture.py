"""A picture: shown in a notebook, saved for a paper or a browser.

matplotlib is used by its objects alone: no window, no current figure, and the user's own settings are neither
read nor changed.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.files import write_atomic
from regard.pictures.colours import theme_named
from regard.pictures.fonts import families

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ENDINGS = (".png", ".svg", ".pdf", ".html")
DOTS_PER_INCH = 200


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawn figure with its title; every function of this room gives one.

    `figure` is matplotlib's own, for those who want to add to it before saving.

    >>> from tempfile import TemporaryDirectory
    >>> from regard.pictures import weight_bars
    >>> picture = weight_bars([0.1, 0.7, 0.2], ["The", "cat", "sat"], title="What “sat” looks at")
    >>> with TemporaryDirectory() as folder:
    ...     picture.save(f"{folder}/bars.svg").name
    ...     picture.save(f"{folder}/bars.bmp")
    Traceback (most recent call last):
    ValueError: a picture is saved as .png, .svg, .pdf or .html, got 'bars.bmp'; give the file one of these endings
    """

    figure: "Figure"
    title: str
    theme: str = "light"

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Write the picture as its ending says, whole or not at all, and return the path."""
        path = Path(file)
        ending = path.suffix.lower()
        if ending not in ENDINGS:
            endings = ".png, .svg, .pdf or .html"
            raise ValueError(f"a picture is saved as {endings}, got {path.name!r}; give the file one of these endings")
        return write_atomic(path, self._page().encode() if ending == ".html" else self._draw(ending[1:]))

    def _draw(self, ending: str) -> bytes:
        buffer = BytesIO()
        # No date and fixed names inside: the same picture gives the same file.
        metadata: dict[str, Any] = {"Title": self.title}
        metadata |= {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending, {})
        with drawing(self.theme):
            self.figure.savefig(
                buffer,
                format=ending,
                dpi=DOTS_PER_INCH,
                metadata=metadata,
                facecolor=self.figure.get_facecolor(),
            )
        return buffer.getvalue()

    def svg(self) -> str:
        """The picture as an SVG element that says its title to a screen reader."""
        text = self._draw("svg").decode()
        element = text[text.index("<svg") :]
        label = escape(self.title, quote=True)
        return element.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)

    def _page(self) -> str:
        theme = theme_named(self.theme)
        title = escape(self.title)
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
            f"<style>body {{ margin: 0; background: {theme.background}; }} "
            f"svg {{ display: block; margin: 1rem auto; max-width: 100%; height: auto; }}</style>\n"
            f"<main>{self.svg()}</main>\n</html>\n"
        )

    def _repr_png_(self) -> bytes:
        return self._draw("png")

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.svg()}</div>'


@contextmanager
def drawing(theme: str = "light") -> Iterator[None]:
    """matplotlib's settings while a picture is made: our fonts and colours, text as text, `$` as `$`."""
    import matplotlib

    colours = theme_named(theme)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(
            {
                "font.family": list(families()),
                "font.size": 10,
                "text.parse_math": False,
                "svg.fonttype": "none",
                "svg.hashsalt": "regard",
                "pdf.fonttype": 42,
                "figure.facecolor": colours.background,
                "axes.facecolor": colours.background,
                "axes.edgecolor": colours.line,
                "axes.labelcolor": colours.faint,
                "axes.titlecolor": colours.ink,
                "axes.unicode_minus": True,
                "text.color": colours.ink,
                "xtick.color": colours.line,
                "ytick.color": colours.line,
                "xtick.labelcolor": colours.ink,
                "ytick.labelcolor": colours.ink,
                "grid.color": colours.line,
            }
        )
        yield


def new_figure(width: float, height: float, layout: str | None = "constrained") -> "Figure":
    """An empty figure of so many inches, drawn in memory."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)  # type: ignore[arg-type]
    FigureCanvasAgg(figure)
    return figure
