"""The two languages of the course, and text that is held in both.

Text stands beside its translation wherever it is written, so that whoever changes one sees the other.
"""

from collections.abc import Mapping
from typing import Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
Words = Mapping[Language, str]


def words(en: str, zh: str) -> Words:
    """The same thing, said in both.

    >>> words("mask", "掩码")["zh"]
    '掩码'
    """
    return {"en": en, "zh": zh}


def spoken(asked: str | None, environment: Mapping[str, str]) -> Language:
    """The language asked for, or else that of the locale.

    >>> spoken(None, {"LANG": "zh_CN.UTF-8"}), spoken("en", {"LANG": "zh_CN.UTF-8"})
    ('zh', 'en')
    """
    if asked is not None and asked not in LANGUAGES:
        raise ValueError(f"--lang must be en or zh, got {asked!r}")
    if asked is None:
        asked = next((environment[name] for name in ("LC_ALL", "LC_MESSAGES", "LANG") if environment.get(name)), "en")
    return "zh" if asked.startswith("zh") else "en"
