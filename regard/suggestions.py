"""Suggestions for misspelt names in error messages."""

import difflib
from collections.abc import Iterable


def suggest(typed: str, names: Iterable[str]) -> str:
    """Return the valid names as text, followed by the one most similar to the typed name if any is similar.

    >>> suggest("phrase", ["dates", "phrases"])
    'dates or phrases (did you mean phrases?)'
    """
    choices = list(names)
    text = " or ".join(filter(None, [", ".join(choices[:-1]), *choices[-1:]]))
    closest = difflib.get_close_matches(typed, choices, n=1)
    return f"{text} (did you mean {closest[0]}?)" if closest else text
