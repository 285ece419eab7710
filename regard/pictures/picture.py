"""The class of all pictures: shown in a notebook, or saved as .png, .svg, .pdf or .html.

Matplotlib is used through its objects only: no window, no current figure, and the user's own settings are neither
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

DOTS_PER_INCH = 200


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure with its title and theme; every drawing function of `regard.pictures` returns one.

    `figure` is the matplotlib figure; it can be changed before saving.

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
        """Write the picture atomically in the format of the file's ending, and return the path."""
        path = Path(file)
        ending = path.suffix.lower()
        if ending not in (".png", ".svg", ".pdf", ".html"):
            endings = ".png, .svg, .pdf or .html"
            raise ValueError(f"a picture is saved as {endings}, got {path.name!r}; give the file one of these endings")
        return write_atomic(path, self._page().encode() if ending == ".html" else self._draw(ending[1:]))

    def _draw(self, ending: str) -> bytes:
        buffer = BytesIO()
        # No date and no random ids, so that the same picture gives the same file.
        metadata: dict[str, Any] = {"Title": self.title}
        metadata |= {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(ending, {})
        with drawing(self.theme):
            background = self.figure.get_facecolor()
            self.figure.savefig(buffer, format=ending, dpi=DOTS_PER_INCH, metadata=metadata, facecolor=background)
        return buffer.getvalue()

    def svg(self) -> str:
        """Return the picture as an SVG element, with its title for screen readers."""
        text = self._draw("svg").decode()
        return f'<svg role="img" aria-label="{escape(self.title)}" ' + text[text.index("<svg ") + 5 :]

    def _page(self) -> str:
        return (
            f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n"
            f"<style>body {{ margin: 0; background: {theme_named(self.theme).background}; }} "
            f"svg {{ display: block; margin: 1rem auto; max-width: 100%; height: auto; }}</style>\n"
            f"<main>{self.svg()}</main>\n</html>\n"
        )

    def _repr_png_(self) -> bytes:
        return self._draw("png")

    def _repr_html_(self) -> str:
        return f'<div style="overflow-x: auto">{self.svg()}</div>'


@contextmanager
def drawing(theme: str = "light") -> Iterator[None]:
    """Apply matplotlib settings while a picture is drawn: fonts, theme colours, text in SVG as text, no TeX for `$`."""
    import matplotlib

    colours = theme_named(theme)
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update({
            "font.family": list(families()), "font.size": 10, "text.parse_math": False, "axes.unicode_minus": True,
            "svg.fonttype": "none", "svg.hashsalt": "regard", "pdf.fonttype": 42, "axes.labelcolor": colours.faint,
            "figure.facecolor": colours.background, "axes.facecolor": colours.background, "text.color": colours.ink,
            "axes.titlecolor": colours.ink, "xtick.labelcolor": colours.ink, "ytick.labelcolor": colours.ink,
            "axes.edgecolor": colours.line, "xtick.color": colours.line, "ytick.color": colours.line,
            "grid.color": colours.line,
        })  # fmt: skip
        yield


def new_figure(
    width: float, height: float, *, title: str | None = None, layout: str | None = "constrained"
) -> "Figure":
    """Return an empty figure of this size in inches, drawn in memory, with a bold title if one is given."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)  # type: ignore[arg-type]
    FigureCanvasAgg(figure)
    if title is not None:
        figure.suptitle(title, fontweight="bold", fontsize=12)
    return figure
