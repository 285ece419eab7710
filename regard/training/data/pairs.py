"""Pairs of texts and their translations, divided into training, validation and test data."""

import codecs
import os
import random
from collections.abc import Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path

Pair = tuple[str, str]
LONGEST = 4000  # characters; a longer source or translation is skipped before it is tokenized


@dataclass(frozen=True)
class Pairs:
    """Sources with their translations; no source of `valid` or `test` occurs in `train`.

    name                name of the data set
    train, valid, test  the pairs
    tokenizer           default kind of tokenizer
    lexicon             words that it knows of a language without spaces
    samples             sources whose translations are printed after the training, for the first one with its alignment
    lines               line numbers of pairs from a file
    notes               which lines of it were skipped or changed

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
    lines: dict[Pair, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def without(self, excluded: Set[Pair]) -> "Pairs":
        """Return the pairs without the excluded ones, divided again if no validation or test data are left."""
        parts = [tuple(pair for pair in part if pair not in excluded) for part in (self.train, self.valid, self.test)]
        if not all(parts):
            parts = divide([pair for part in parts for pair in part])
        remaining = {source for part in parts for source, _ in part}
        samples = [source for source in self.samples if source in remaining] or [source for source, _ in parts[2][:5]]
        return replace(self, train=parts[0], valid=parts[1], test=parts[2], samples=tuple(samples))


def divide(pairs: Sequence[Pair], seed: int = 0, held_out: float = 0.05) -> list[tuple[Pair, ...]]:
    """Divide pairs into training, validation and test data; all pairs with the same source go into the same part."""
    by_source: dict[str, list[Pair]] = {}
    for pair in pairs:
        by_source.setdefault(pair[0], []).append(pair)
    if len(by_source) < 3:
        raise ValueError(f"the data have {len(by_source)} different sources; training and tests need at least 3")
    sources = sorted(by_source)
    random.Random(seed).shuffle(sources)
    held = max(1, min(2000, round(held_out * len(sources))))
    parts = (sources[2 * held :], sources[:held], sources[held : 2 * held])
    return [tuple(pair for source in part for pair in by_source[source]) for part in parts]


def read_tsv(file: str | os.PathLike[str], *, seed: int = 0, held_out: float = 0.05) -> Pairs:
    """Read pairs from a file with one pair per line: source, tab, translation.

    file        the file, in UTF-8
    seed        seed that selects the held-out sources
    held_out    fraction of the sources that becomes validation data; as many become test data

    Blank lines and further columns are ignored. Lines are skipped that have no tab, no text on one side of it, NUL
    characters, bytes that are not UTF-8, or more than LONGEST characters on one side; `notes` names them. If most lines
    cannot be used, an error says why.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     file = Path(folder) / "pairs.tsv"
    ...     _ = file.write_text("one\\teins\\ntwo\\tzwei\\nthree\\tdrei\\nfour\\n")
    ...     pairs = read_tsv(file)
    >>> len(pairs.train), len(pairs.valid), len(pairs.test), pairs.notes
    (1, 1, 1, ('line 4 skipped: no tab',))
    """
    path = Path(file)
    pairs: list[Pair] = []
    numbers: dict[Pair, int] = {}
    skipped: dict[str, list[int]] = {}
    repeated: list[int] = []
    wide: list[int] = []
    lines = path.read_bytes().removeprefix(codecs.BOM_UTF8).splitlines()
    for number, line in enumerate(lines, 1):
        if not (text := line.decode(errors="surrogateescape")).strip():
            continue
        columns = [column.strip() for column in text.split("\t")]
        if problem := _problem(columns):
            skipped.setdefault(problem, []).append(number)
            continue
        pair = columns[0], columns[1]
        if any(columns[2:]):
            wide.append(number)
        if numbers.setdefault(pair, number) != number:
            repeated.append(number)
        pairs.append(pair)
    count = len({source for source, _ in pairs})
    if skipped and (count < 3 or sum(map(len, skipped.values())) > len(pairs)):
        problem, rows = max(skipped.items(), key=lambda item: len(item[1]))
        start = lines[rows[0] - 1][:60].decode(errors="replace")
        raise ValueError(
            f"{path}, {name_lines(rows)}: {problem}; expected SOURCE<tab>TRANSLATION in UTF-8, got {start!r}"
        )
    if count < 3:
        raise ValueError(f"{path} has {count} different sources; add lines: training and tests need at least 3")
    train, valid, test = divide(pairs, seed, held_out)
    notes = [f"{name_lines(rows)} skipped: {problem}" for problem, rows in skipped.items()]
    if wide:
        notes.append(f"{name_lines(wide)}: only the first two columns are used")
    if repeated:
        notes.append(f"{name_lines(repeated)}: the same pair as on an earlier line; it counts more than once")
    samples = tuple(dict.fromkeys(source for source, _ in test))[:5]
    return Pairs(path.stem, train, valid, test, samples=samples, lines=numbers, notes=tuple(notes))


def _problem(columns: list[str]) -> str:
    """Return why the columns of a line are no pair; "" if they are one."""
    if len(columns) < 2:
        return "no tab"
    if not columns[0] or not columns[1]:
        return "no text on one side of the tab"
    text = columns[0] + columns[1]
    if any("\udc80" <= c <= "\udcff" for c in text):  # what surrogateescape makes of bytes that are not UTF-8
        return "not UTF-8"
    if "\0" in text:
        return "NUL characters"
    return f"more than {LONGEST:,} characters on one side" if max(map(len, columns[:2])) > LONGEST else ""


def name_lines(numbers: Sequence[int]) -> str:
    """Return line numbers as text, at most five of them.

    >>> name_lines([4]), name_lines(range(3, 12))
    ('line 4', 'lines 3, 4, 5, 6, 7 and 4 more')
    """
    listed = ", ".join(map(str, numbers[:5]))
    more = f" and {len(numbers) - 5:,} more" if len(numbers) > 5 else ""
    return f"line{'s' * (len(numbers) > 1)} {listed}{more}"


def read_utf8(path: Path) -> str:
    """Return the text of a file; raise an error with the place of the first byte that is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text ({error.reason} at byte {error.start}); save it as UTF-8") from None
