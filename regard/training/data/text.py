"""Text for language models: files, or the Python reference that CPython carries in `pydoc_data.topics`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.training.data.pairs import read_utf8

PYTHON = "python"


@dataclass(frozen=True)
class Text:
    """Documents for training and for validation."""

    name: str
    train: tuple[str, ...]
    valid: tuple[str, ...]


def load_text(data: Sequence[str] = (PYTHON,)) -> Text:
    """Return the text of the data set "python", or of files."""
    return python_reference() if list(data) == [PYTHON] else read_texts(data)


def python_reference() -> Text:
    """Return the topics of Python's `help()`, such as "while"; every tenth topic is held out for validation."""
    from pydoc_data.topics import topics

    documents = [topics[name].strip() for name in sorted(topics)]
    held_out = documents[4::10]
    return Text(PYTHON, tuple(text for text in documents if text not in held_out), tuple(held_out))


def read_texts(files: Sequence[str | os.PathLike[str]]) -> Text:
    """Return the text of files; the last tenth of each is held out for validation."""
    train, valid = [], []
    for file in files:
        path = Path(file)
        text = read_utf8(path)
        if len(text.strip()) < 20:
            raise ValueError(f"{path} has {len(text.strip())} characters; training needs a file with at least 20")
        cut = len(text) - max(10, len(text) // 10)
        train.append(text[:cut])
        valid.append(text[cut:])
    return Text(Path(files[0]).stem, tuple(train), tuple(valid))
