"""Text of a learner's process, made safe to show: control characters, terminal escapes and bidi marks are escaped."""

import os
import sys
import sysconfig
import unicodedata

KEPT = "\n\t"
HIDDEN_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # control, format (bidi, zero width), unassigned, …
JOINERS = "\u200c\u200d"  # parts of ordinary words and emoji; they change no direction and move no cursor


def visible_text(text: str, longest: int | None = None) -> str:
    r"""Return the text with every character that acts on a terminal or hides text written as an escape.

    >>> visible_text("\x1b[2Jred\rgreen \u202egnp.exe")
    '\\x1b[2Jred\\rgreen \\u202egnp.exe'
    >>> visible_text("行 1\n\tx²")
    '行 1\n\tx²'
    """
    text = text.replace("\r\n", "\n")
    if longest is not None and len(text) > longest:
        text = text[:longest] + "…"
    if text.isascii() and text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(char if _is_visible(char) else _escape(char) for char in text)


def without_folders(text: str, workspace: str = "") -> str:
    """Return the text with short names instead of the folders of this machine that a traceback may contain.

    >>> import os
    >>> without_folders(os.__file__)
    'python/os.py'
    """
    paths = sysconfig.get_paths()
    folders = {
        workspace: ".",
        paths["purelib"]: "site-packages",
        paths["platlib"]: "site-packages",
        paths["stdlib"]: "python",
        paths["platstdlib"]: "python",
        sys.prefix: "python",
        sys.base_prefix: "python",
        os.path.expanduser("~"): "~",
    }
    for folder in sorted(folders, key=len, reverse=True):
        for spelled in {folder, os.path.realpath(folder)}:
            if folder and len(spelled) > 1:
                text = text.replace(spelled, folders[folder])
    return text


def _is_visible(char: str) -> bool:
    return char in KEPT or char in JOINERS or unicodedata.category(char) not in HIDDEN_CATEGORIES


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()
