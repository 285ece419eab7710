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


def read_language(text: str) -> Language:
    """A language as it is typed.

    >>> read_language("zh")
    'zh'
    """
    for language in LANGUAGES:
        if text == language:
            return language
    raise ValueError(f"the language must be en or zh, got {text!r}")
