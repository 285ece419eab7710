"""The nearest of the names that exist, for whoever typed one that does not."""

import difflib
from collections.abc import Iterable


def suggest(typed: str, names: Iterable[str]) -> str:
    """The names in words, and which of them was meant, where that can be guessed.

    >>> suggest("phrase", ["dates", "phrases"])
    'dates or phrases (did you mean phrases?)'
    """
    known = list(names)
    listed = " or ".join(filter(None, [", ".join(known[:-1]), *known[-1:]]))
    near = difflib.get_close_matches(typed, known, n=1)
    return f"{listed} (did you mean {near[0]}?)" if near else listed
