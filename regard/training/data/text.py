"""Text to learn a language from: files, or the Python reference that every CPython carries in `pydoc_data.topics`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PYTHON = "python"


@dataclass(frozen=True)
class Text:
    """Documents to learn from, and others to be evaluated on."""

    name: str
    train: tuple[str, ...]
    valid: tuple[str, ...]


def named_text(data: Sequence[str] = (PYTHON,)) -> Text:
    """The text "python", or that of files."""
    return python_reference() if list(data) == [PYTHON] else read_texts(data)


def python_reference() -> Text:
    """What `help("while")` and the like print; every tenth topic is held out."""
    from pydoc_data.topics import topics

    documents = [topics[name].strip() for name in sorted(topics)]
    held = documents[4::10]
    return Text(PYTHON, tuple(text for text in documents if text not in held), tuple(held))


def read_texts(files: Sequence[str | os.PathLike[str]]) -> Text:
    """The text of files; the last tenth of each is held out."""
    train, valid = [], []
    for file in files:
        path = Path(file)
        try:
            text = path.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            where = f"{error.reason} at byte {error.start}"
            raise ValueError(f"{path} is not UTF-8 text ({where}); save it as UTF-8") from None
        if len(text.strip()) < 20:
            raise ValueError(f"{path} holds {len(text.strip())} characters; give a file with text to learn from")
        cut = len(text) - max(10, len(text) // 10)
        train.append(text[:cut])
        valid.append(text[cut:])
    return Text(Path(files[0]).stem, tuple(train), tuple(valid))
