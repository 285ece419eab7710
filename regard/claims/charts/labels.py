"""Display names, in both languages, of the values that result rows hold; `labels.toml` lists them."""

import re
from pathlib import Path
from typing import Any

from regard.languages import Bilingual, bilingual, read_texts

FILE = Path(__file__).with_name("labels.toml")
PATTERNS = (
    (r"(\d+) heads?", r"\g<0>", r"\1 头"),
    (r"attention every (\d+)", r"attention every \1 block(s)", r"每 \1 块一次注意力"),
)


def label(value: Any) -> Bilingual:
    """Return the display name of a value; a value that is not listed is returned as text.

    >>> label("mask on"), label("6 heads")["zh"], label(64)["zh"]
    ({'en': 'mask on', 'zh': '有掩码'}, '6 头', '64')
    """
    name = str(value)
    for pattern, en, zh in PATTERNS:
        if re.fullmatch(pattern, name):
            return bilingual(re.sub(pattern, en, name), re.sub(pattern, zh, name))
    return {"en": name, "zh": name, **read_texts(FILE).get(name, {})}
