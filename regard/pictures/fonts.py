"""Fonts that have the glyphs: never a box in place of a character.

matplotlib draws with the first font of a list that has the glyph. DejaVu Sans, which comes with matplotlib,
has no Chinese, Japanese or Korean; this finds an installed font that has. A character that no font has is
written as its number (U+732B), and a warning names what to install.
"""

import unicodedata
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

BASE = "DejaVu Sans"
WIDE = (
    "Noto Sans CJK SC",
    "Noto Sans CJK JP",
    "Noto Sans CJK TC",
    "Noto Sans CJK KR",
    "Noto Sans SC",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "Source Han Sans",
    "PingFang SC",
    "PingFang HK",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "Microsoft JhengHei",
    "WenQuanYi Micro Hei",
    "WenQuanYi Zen Hei",
    "SimHei",
    "SimSun",
    "Heiti TC",
    "Droid Sans Fallback",
    "Arial Unicode MS",
    "Unifont",
)
INSTALL = "install one, such as fonts-noto-cjk (Debian, Ubuntu) or google-noto-sans-cjk-fonts (Fedora)"


@cache
def families() -> tuple[str, ...]:
    """The fonts to draw with, in order: matplotlib's own, then the installed ones with wide characters.

    >>> families()[0]
    'DejaVu Sans'
    """
    from matplotlib import font_manager

    manager = font_manager.fontManager
    if not any(font.name in WIDE for font in manager.ttflist):
        # matplotlib keeps the list of fonts that it once found: what was installed since is not in it.
        for path in set(font_manager.findSystemFonts()) - {font.fname for font in manager.ttflist}:
            with suppress(OSError, RuntimeError):  # a file that is no font
                manager.addfont(path)
    installed = {font.name for font in manager.ttflist}
    return (BASE, *[name for name in WIDE if name in installed][:3])


@cache
def _glyphs(family: str) -> frozenset[int]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    path = font_manager.findfont(font_manager.FontProperties(family=[family]))
    return frozenset(FT2Font(path).get_charmap())


def legible(text: str) -> str:
    """The text with what no font can draw, or what shows nothing, written in signs that can be seen.

    >>> legible("a\\nb"), legible(" ")
    ('a↵b', '␣')
    """
    shown = []
    missing = []
    for c in "␣" * len(text) if text and text.isspace() and set(text) == {" "} else text:
        if c in "\n\r\t":
            shown.append({"\n": "↵", "\r": "↵", "\t": "⇥"}[c])
        elif unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn") or not _drawable(c):
            shown.append(f"U+{ord(c):04X}")
            if unicodedata.category(c)[0] != "C":
                missing.append(c)
        else:
            shown.append(c)
    if missing:
        names = ", ".join(f"{c} (U+{ord(c):04X})" for c in dict.fromkeys(missing))
        warnings.warn(
            f"no font that matplotlib finds has {names}; the picture shows the numbers instead: {INSTALL}",
            stacklevel=3,
        )
    return "".join(shown)


def _drawable(c: str) -> bool:
    return c == " " or any(ord(c) in _glyphs(family) for family in families())


def labels(tokens: Iterable[str], longest: int = 16) -> list[str]:
    """The tokens as they are written beside a picture: legible, and shortened where very long.

    >>> labels(["The", "cat", "antidisestablishmentarianism"])
    ['The', 'cat', 'antidisestablis…']
    """
    return [shorten(legible(token), longest) for token in tokens]


def shorten(text: str, longest: int) -> str:
    """The text in at most so many columns, a wide character counting two."""
    if columns(text) <= longest:
        return text
    kept = ""
    for c in text:
        if columns(kept + c) >= longest:
            break
        kept += c
    return kept + "…"


def columns(text: str) -> int:
    """How many columns of a terminal the text takes; a fair measure of its width on paper.

    >>> columns("cat"), columns("猫")
    (3, 2)
    """
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
