"""Fonts that have the glyphs of the tokens, including Chinese, Japanese and Korean.

Matplotlib draws each character with the first font of a list that has its glyph. DejaVu Sans, which comes with
matplotlib, has no CJK characters, so an installed font that has them is added to the list. A character that no font
has is written as its code point (U+732B), and a warning names a package to install. An emoji is written as its name.
"""

import unicodedata
import warnings
from collections.abc import Iterable
from contextlib import suppress
from functools import cache

BASE = "DejaVu Sans"
CJK_FONTS = (
    "Noto Sans CJK SC", "Noto Sans CJK JP", "Noto Sans CJK TC", "Noto Sans CJK KR", "Noto Sans SC",
    "Source Han Sans SC", "Source Han Sans CN", "Source Han Sans", "PingFang SC", "PingFang HK", "Hiragino Sans GB",
    "Microsoft YaHei", "Microsoft JhengHei", "WenQuanYi Micro Hei", "WenQuanYi Zen Hei", "SimHei", "SimSun",
    "Heiti TC", "Droid Sans Fallback", "Arial Unicode MS", "Unifont",
)  # fmt: skip
INSTALL = "install one, such as fonts-noto-cjk (Debian, Ubuntu) or google-noto-sans-cjk-fonts (Fedora)"


@cache
def families() -> tuple[str, ...]:
    """Return the fonts to draw with, in order: matplotlib's own, then installed fonts with CJK characters.

    >>> families()[0]
    'DejaVu Sans'
    """
    from matplotlib import font_manager

    manager = font_manager.fontManager
    if not any(font.name in CJK_FONTS for font in manager.ttflist):
        # Matplotlib caches its list of fonts, which does not contain fonts that were installed later.
        for path in set(font_manager.findSystemFonts()) - {font.fname for font in manager.ttflist}:
            with suppress(OSError, RuntimeError):  # the file is not a font
                manager.addfont(path)
    installed = {font.name for font in manager.ttflist}
    return (BASE, *[name for name in CJK_FONTS if name in installed][:3])


@cache
def _glyphs(family: str) -> frozenset[int]:
    from matplotlib import font_manager
    from matplotlib.ft2font import FT2Font

    path = font_manager.findfont(font_manager.FontProperties(family=[family]))
    return frozenset(FT2Font(path).get_charmap())


def legible(text: str) -> str:
    """Return the text; invisible characters, and those that no font has, are replaced by visible ones.

    >>> legible("a\\nb"), legible(" ")
    ('a↵b', '␣')
    >>> legible("🚀")
    ':rocket:'
    """
    characters = []
    missing = []
    after_emoji = False
    for c in "␣" * len(text) if text and text.isspace() and set(text) == {" "} else text:
        if c in "\n\r\t":
            characters.append({"\n": "↵", "\r": "↵", "\t": "⇥"}[c])
        elif unicodedata.category(c) in ("So", "Sk") and not _drawable(c):  # an emoji; no font of matplotlib has all
            characters.append(f":{unicodedata.name(c, f'U+{ord(c):04X}').lower().replace(' ', '-')}:")
            after_emoji = True
            continue
        elif c in "\ufe0e\ufe0f\u20e3" or (c == "\u200d" and after_emoji):  # chooses the form of emoji or joins them
            continue
        elif unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Cn") or not _drawable(c):
            characters.append(f"U+{ord(c):04X}")
            if unicodedata.category(c)[0] != "C":
                missing.append(c)
        else:
            characters.append(c)
        after_emoji = False
    if missing:
        names = ", ".join(f"{c} (U+{ord(c):04X})" for c in dict.fromkeys(missing))
        warnings.warn(
            f"no font that matplotlib finds has {names}; the picture shows their code points instead; {INSTALL}",
            stacklevel=3,
        )
    return "".join(characters)


def _drawable(c: str) -> bool:
    return c == " " or any(ord(c) in _glyphs(family) for family in families())


def labels(tokens: Iterable[str], longest: int = 16) -> list[str]:
    """Return the tokens as labels: with visible characters only (`legible`), cut to `longest` columns.

    >>> labels(["The", "cat", "antidisestablishmentarianism"])
    ['The', 'cat', 'antidisestablis…']
    """
    return [shorten(legible(token), longest) for token in tokens]


def shorten(text: str, longest: int) -> str:
    """Return the text cut to this many columns, where a wide character counts as two."""
    if columns(text) <= longest:
        return text
    start = ""
    for c in text:
        if columns(start + c) >= longest:
            break
        start += c
    return start + "…"


def columns(text: str) -> int:
    """Return how many terminal columns the text takes, an approximate measure of its width on paper.

    >>> columns("cat"), columns("猫")
    (3, 2)
    """
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
