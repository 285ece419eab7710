"""The light and the dark theme, and the colour maps of weights.

The colour map is a path through OKLab, a colour space in which equal distances look equal. It is sampled in steps of
equal length (perceptually uniform), and its lightness only decreases (light theme) or only increases (dark theme), so
that the order of the weights remains visible in grey print and for colour-blind readers. Weight 0 has nearly the
colour of the background.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.colors import Colormap

Array = np.ndarray


@dataclass(frozen=True)
class Theme:
    """The colours of a picture.

    name                                            "light" or "dark"
    background, ink, faint, line, panel, accent     colours of the parts of a picture, as #rrggbb
    path                                            colours of weights from 0 to 1, in OKLab

    >>> THEMES["dark"].background
    '#14181f'
    """

    name: str
    background: str
    ink: str
    faint: str
    line: str
    panel: str
    accent: str
    path: tuple[tuple[float, float, float], ...]


THEMES = {
    "light": Theme(
        name="light", background="#ffffff", ink="#1c2430", faint="#566171", line="#d5dbe4", panel="#f3f5f9",
        accent="#c2410c",
        path=(
            (0.980, -0.004, 0.010), (0.880, -0.035, 0.030), (0.740, -0.070, -0.020),
            (0.560, -0.040, -0.090), (0.400, 0.000, -0.120), (0.260, 0.025, -0.085),
        ),
    ),
    "dark": Theme(
        name="dark", background="#14181f", ink="#e8ecf2", faint="#a3aebd", line="#333c49", panel="#1d232d",
        accent="#ffa94d",
        path=(
            (0.235, 0.000, -0.018), (0.360, 0.030, -0.100), (0.520, 0.120, -0.050),
            (0.670, 0.125, 0.060), (0.820, 0.050, 0.120), (0.970, -0.010, 0.060),
        ),
    ),
}  # fmt: skip


def theme_named(name: str) -> Theme:
    """Return the theme with this name; raise an error that lists the themes if there is none."""
    if name not in THEMES:
        raise ValueError(f"theme must be one of {', '.join(THEMES)}, got {name!r}")
    return THEMES[name]


@cache
def colour_table(theme: str = "light") -> Array:
    """Return 256 colours from weight 0 to weight 1, as (256, 3) bytes.

    theme       "light" or "dark"

    >>> colour_table("light").shape
    (256, 3)
    >>> grey = colour_table("light") @ [0.299, 0.587, 0.114]     # in grey print
    >>> bool((np.diff(grey) < 0.5).all())
    True
    """
    corners = np.array(theme_named(theme).path)
    # A smooth curve through the corners (Catmull-Rom), finely sampled, then resampled in steps of equal length.
    ends = np.vstack([2 * corners[0] - corners[1], corners, 2 * corners[-1] - corners[-2]])
    t = np.linspace(0, 1, 200, endpoint=False)[:, None]
    pieces = [
        0.5 * (2 * b + (c - a) * t + (2 * a - 5 * b + 4 * c - d) * t**2 + (3 * (b - c) + d - a) * t**3)
        for a, b, c, d in zip(ends, ends[1:], ends[2:], ends[3:], strict=False)
    ]
    curve = np.vstack([*pieces, corners[-1:]])
    length = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(curve, axis=0), axis=1))])
    places = np.linspace(0, length[-1], 256)
    return _to_bytes(np.stack([np.interp(places, length, curve[:, i]) for i in range(3)], axis=1))


def _to_bytes(lab: Array) -> Array:
    """Convert OKLab (Björn Ottosson, 2020) to sRGB bytes."""
    to_cones = np.array(
        [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.291485548]]
    )
    to_linear = np.array([
        [4.0767416621, -3.3077115913, 0.2309699292], [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ])  # fmt: skip
    linear = np.clip((lab @ to_cones.T) ** 3 @ to_linear.T, 0, 1)
    encoded = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return np.round(encoded * 255).astype(np.uint8)


def colour_map(theme: str) -> "Colormap":
    """Return `colour_table(theme)` as a matplotlib colour map; NaN has the panel colour of the theme."""
    from matplotlib.colors import ListedColormap

    return ListedColormap(colour_table(theme) / 255, name=f"regard-{theme}").with_extremes(bad=theme_named(theme).panel)


def signed_colour_map(theme: str) -> "Colormap":
    """Return a colour map of values from −1 (orange) over 0 (the background) to 1 (blue); NaN has the panel colour."""
    from matplotlib.colors import LinearSegmentedColormap

    ends = {"light": ("#b23c0a", "#24479c"), "dark": ("#ff9d47", "#7db4ff")}[theme]
    colours = (ends[0], theme_named(theme).background, ends[1])
    return LinearSegmentedColormap.from_list(f"regard-signed-{theme}", colours).with_extremes(
        bad=theme_named(theme).panel
    )


def ink_on(theme: str, share: float) -> str:
    """Return black or white, whichever has more contrast with the colour at `share` (0 to 1) of `colour_table`."""
    if share != share:  # NaN is drawn in the panel colour
        return theme_named(theme).ink
    return legible_on(colour_table(theme)[round(255 * min(max(share, 0.0), 1.0))] / 255)


def legible_on(colour: Sequence[float] | Array) -> str:
    """Return black or white, whichever has more contrast with a colour (red, green, blue from 0 to 1).

    >>> legible_on((1.0, 0.9, 0.2))
    '#000000'
    """
    red, green, blue = (float(part) ** 2.2 for part in colour[:3])
    luminance = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    return "#000000" if (luminance + 0.05) / 0.05 > 1.05 / (luminance + 0.05) else "#ffffff"


def bar_colour(share: float, theme: str) -> tuple[float, float, float]:
    """Return the colour of a bar or arrow for a value of `share` (0 to 1) times the largest; 0 is visible too."""
    share = min(max(share, 0.0), 1.0) if share == share else 0.0
    red, green, blue = colour_table(theme)[round(255 * (0.35 + 0.5 * share))] / 255
    return float(red), float(green), float(blue)
