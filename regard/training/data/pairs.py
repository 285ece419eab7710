"""Pairs of texts and their translations, divided into training, validation and test data."""

import os
import random
from dataclasses import dataclass
from pathlib import Path

Pair = tuple[str, str]


@dataclass(frozen=True)
class Pairs:
    """Sources with their translations; no source of `valid` or `test` occurs in `train`.

    `tokenizer` is the default kind of tokenizer, `lexicon` the words that it knows of a language without spaces.
    `samples` are sources whose translations are printed after the training, for the first one with its alignment.

    >>> pairs = Pairs("numbers", train=(("1", "one"),), valid=(("2", "two"),), test=(("3", "three"),))
    >>> len(pairs.train), pairs.tokenizer
    (1, 'bpe')
    """

    name: str
    train: tuple[Pair, ...]
    valid: tuple[Pair, ...]
    test: tuple[Pair, ...]
    tokenizer: str = "bpe"
    lexicon: tuple[str, ...] = ()
    samples: tuple[str, ...] = ()


def read_tsv(file: str | os.PathLike[str], *, seed: int = 0, held_out: float = 0.05) -> Pairs:
    """Read pairs from a file with one pair per line: source, tab, translation.

    The fraction `held_out` of the sources becomes validation data, and as many become test data. All lines with the
    same source go into the same part.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "pairs.tsv"
    ...     _ = file.write_text("one\\teins\\ntwo\\tzwei\\nthree\\tdrei\\n")
    ...     pairs = read_tsv(file)
    >>> len(pairs.train), len(pairs.valid), len(pairs.test)
    (1, 1, 1)
    """
    path = Path(file)
    lines = read_utf8(path).split("\n")
    pairs: dict[str, list[Pair]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        source, tab, target = line.rstrip("\r").partition("\t")
        if not tab or not source.strip() or not target.strip():
            problem = "has no tab" if not tab else "has no text on one side of its tab"
            raise ValueError(f"{path}, line {number} {problem}: expected SOURCE<tab>TRANSLATION, got {line[:60]!r}")
        pairs.setdefault(source.strip(), []).append((source.strip(), target.split("\t")[0].strip()))
    if len(pairs) < 3:
        raise ValueError(f"{path} has {len(pairs)} different sources; add lines: training and tests need at least 3")
    sources = sorted(pairs)
    random.Random(seed).shuffle(sources)
    held = max(1, min(2000, round(held_out * len(sources))))
    parts = (sources[2 * held :], sources[:held], sources[held : 2 * held])
    train, valid, test = (tuple(pair for source in part for pair in pairs[source]) for part in parts)
    return Pairs(path.stem, train, valid, test, samples=tuple(source for source, _ in test[:5]))


def read_utf8(path: Path) -> str:
    """Return the text of a file; raise an error with the place of the first byte that is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8") from None
