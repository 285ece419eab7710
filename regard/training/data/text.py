"""Text for language models: files, or the Python reference that CPython carries in `pydoc_data.topics`."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from regard.training.data.pairs import read_utf8
from regard.training.tokenizer import MASK, SPECIAL, Tokenizer

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


def masked_sentences(texts: Sequence[str], tokenizer: Tokenizer, context: int, count: int = 5) -> list[tuple[str, str]]:
    """Return sentences in which one word is replaced by <mask>, with that word.

    Each is the first in its paragraph. The word has at least 4 letters if possible and is a single token.
    """
    paragraphs = [" ".join(part.split()) for text in texts for part in re.split(r"\n\s*\n", text)]
    found: list[tuple[str, str]] = []
    for least, shortest in ((4, 40), (1, 1)):
        for paragraph in paragraphs:
            sentence = re.split(r"(?<=[.!?。！？])\s*", paragraph)[0][:200]
            words = [
                m
                for m in re.finditer(rf"(?<=\S) [^\W\d_]{{{least},}}(?!\w)" if least > 1 else r"(?<=.)\w", sentence)
                if _is_token(m, tokenizer)
            ]
            if len(sentence) < shortest or not words or len(tokenizer.encode(sentence)) > context:
                continue
            word = words[len(words) // 2]
            space = " " * word[0].startswith(" ")
            found.append((sentence[: word.start()] + space + SPECIAL[MASK] + sentence[word.end() :], word[0].strip()))
        if found:
            break
    return found[:: -(-len(found) // count)] if found else []


def _is_token(word: re.Match[str], tokenizer: Tokenizer) -> bool:
    """Return whether the word of a sentence is a single token that ends where the word ends."""
    return len(tokenizer.encode(word[0])) == 1
