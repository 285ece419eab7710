"""Pairs of texts to translate, divided into what is learnt, what is watched while learning, and what is asked."""

import os
import random
from dataclasses import dataclass, field
from pathlib import Path

Pair = tuple[str, str]


@dataclass(frozen=True)
class Pairs:
    """Sources with their translations; no source of `valid` or `test` stands in `train`.

    `show` are the sources whose translations are printed at the end, the first of them with its alignment.
    """

    name: str
    train: tuple[Pair, ...]
    valid: tuple[Pair, ...]
    test: tuple[Pair, ...]
    tokenizer: str = "bpe"
    lexicon: tuple[str, ...] = ()
    show: tuple[str, ...] = field(default=())


def read_tsv(file: str | os.PathLike[str], *, seed: int = 0, held_out: float = 0.05) -> Pairs:
    """Pairs from a file, a line each, source and translation with a tab between.

    A twentieth of the sources is held out to watch the learning, another to ask at the end. A source that
    stands in several lines is always on one side.
    """
    path = Path(file)
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8") from None
    pairs: dict[str, list[Pair]] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        source, tab, target = line.rstrip("\r").partition("\t")
        if not tab or not source.strip() or not target.strip():
            wrong = "has no tab" if not tab else "has nothing on one side of its tab"
            raise ValueError(f"{path}, line {number} {wrong}: expected SOURCE<tab>TRANSLATION, got {line[:60]!r}")
        pairs.setdefault(source.strip(), []).append((source.strip(), target.split("\t")[0].strip()))
    if len(pairs) < 3:
        raise ValueError(
            f"{path} holds {len(pairs)} different sources; to learn, to watch and to ask take at least 3: add lines"
        )
    sources = sorted(pairs)
    random.Random(seed).shuffle(sources)
    held = max(1, min(2000, round(held_out * len(sources))))
    cut = [[pair for source in part for pair in pairs[source]]
           for part in (sources[2 * held :], sources[:held], sources[held : 2 * held])]  # fmt: skip
    train, valid, test = map(tuple, cut)
    return Pairs(path.stem, train, valid, test, show=tuple(source for source, _ in test[:5]))
