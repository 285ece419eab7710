"""English and Chinese: the language of the reader, and texts held in both languages.

Every text is stored next to its translation, so that both are changed together.
"""

import os
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")
Bilingual = Mapping[Language, str]


def bilingual(en: str, zh: str) -> Bilingual:
    """Return a text in both languages.

    >>> bilingual("mask", "掩码")["zh"]
    '掩码'
    """
    return {"en": en, "zh": zh}


def choose_language(option: str | None, environment: Mapping[str, str] = os.environ) -> Language:
    """Return the language of a `--lang` option, or that of the locale if the option is None.

    >>> choose_language(None, {"LANG": "zh_CN.UTF-8"}), choose_language("en", {"LANG": "zh_CN.UTF-8"})
    ('zh', 'en')
    """
    if option not in (None, *LANGUAGES):
        raise ValueError(f"--lang must be en or zh, got {option!r}")
    variables = ("LC_ALL", "LC_MESSAGES", "LANG")
    locale: str = option or next((environment[name] for name in variables if environment.get(name)), "en")
    return "zh" if locale.startswith("zh") else "en"


@cache
def read_texts(file: Path) -> Mapping[str, Any]:
    """Return the tables of a TOML file of texts; the file is read once."""
    return tomllib.loads(file.read_text(encoding="utf-8"))


def fill_in(text: Bilingual, /, **values: object) -> Bilingual:
    """Return the text with its {placeholders} replaced; a bilingual value is inserted in the language of the text.

    >>> fill_in(bilingual("the {part} of {n}", "{n} 的{part}"), part=bilingual("root", "平方根"), n=4)
    {'en': 'the root of 4', 'zh': '4 的平方根'}
    """
    return {
        language: text[language].format(
            **{name: value[language] if isinstance(value, dict) else value for name, value in values.items()}
        )
        for language in LANGUAGES
    }
