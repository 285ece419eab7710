"""Texts of the drills in both languages, read from texts.toml."""

from pathlib import Path

from regard.languages import Bilingual, fill_in, read_texts

FILE = Path(__file__).with_name("texts.toml")


def drill_text(table: str, key: str, /, **values: object) -> Bilingual:
    """Return a text of the file with its placeholders filled in.

    >>> drill_text("step", "scaled", d_k=4)["en"]
    'the scores divided by √d_k, d_k = 4'
    """
    return fill_in(read_texts(FILE)[table][key], **values)
