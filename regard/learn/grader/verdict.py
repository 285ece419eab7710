"""What the grader says."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from regard.languages import Language


@dataclass(frozen=True)
class FailingCase:
    """The first case that failed: what went in, what was expected, what came; small arrays as text.

    `which` of several returned values differs first, counted from 1; None if one value is returned.
    """

    name: Mapping[Language, str]
    inputs: str
    expected: str
    yours: str
    which: int | None = None


@dataclass(frozen=True)
class Verdict:
    """Passed or not, and if not, why.

    `kind` is one of a few words ("passed", "mistake", "shape", "values", "error", "timeout", …). `mistake` is the
    key of the mistake in the exercise's list, None when it is not one of those. `sure` says that the code gave on
    every case what that mistake gives; otherwise it did so on the case shown. `title` and `message` are by
    language.
    """

    exercise: str
    passed: bool
    kind: str
    mistake: str | None
    sure: bool
    title: Mapping[Language, str]
    message: Mapping[Language, str]
    failing: FailingCase | None
    hints: Mapping[Language, Sequence[str]]
    printed: str
    cases: int
    seed: int
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain values."""
        return asdict(self)
