"""The result of grading an exercise."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.languages import Bilingual, Language


@dataclass(frozen=True)
class FailingCase:
    """The first case that failed: its inputs, the expected and the learner's result, as text.

    `which` counts, from 1, the first returned value that differs; None if one value is returned.
    """

    name: Bilingual
    inputs: str
    expected: str
    yours: str
    which: int | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether the code passed, and if not, why.

    `kind` is "passed", "mistake", "shape", "values", "error", "timeout", … `mistake` is the key of the mistake in the
    exercise's mistakes.toml, None if the code made none of those. `sure` means that the code gives the results of that
    mistake on every case; otherwise it does so on the failing case shown. `title` and `message` are in both languages.

    >>> from regard.learn import grade
    >>> verdict = grade("softmax", "def softmax(x): return x", seed=0)
    >>> verdict.passed, verdict.kind, verdict.title["en"]
    (False, 'rows', 'The rows do not sum to 1')
    """

    exercise: str
    passed: bool
    kind: str
    mistake: str | None
    sure: bool
    title: Bilingual
    message: Bilingual
    failing: FailingCase | None
    hints: Mapping[Language, Sequence[str]]
    printed: str
    cases: int
    seed: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return asdict(self)
