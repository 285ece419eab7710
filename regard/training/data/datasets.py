"""Data sets of sentence pairs by name: "phrases", "dates", or a file of tab-separated pairs."""

import os
from pathlib import Path

from regard.suggestions import suggest
from regard.training.data.dates import date_pairs
from regard.training.data.pairs import Pairs, read_tsv
from regard.training.data.phrase_grammar import phrase_pairs

GENERATORS = {"phrases": phrase_pairs, "dates": date_pairs}


def load_pairs(name: str, seed: int = 0) -> Pairs:
    """Generate the data set "phrases" or "dates", or read the pairs of a file."""
    if name in GENERATORS:
        return GENERATORS[name](seed=seed)
    if name.endswith((".tsv", ".txt")) or os.sep in name or Path(name).exists():
        return read_tsv(name, seed=seed)
    names = suggest(name, GENERATORS)
    raise ValueError(f"no data set {name!r}: give {names}, or a file FILE.tsv with one pair per line")
