"""The result of grading an exercise."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from regard.languages import Bilingual, Language
from regard.learn.sandbox.visible_text import visible_text


@dataclass(frozen=True)
class FailingCase:
    """The first case that failed: its inputs, the expected and the learner's result, as text.

    `which` names the first returned value that differs, in both languages; None if one value is returned.
    """

    name: Bilingual
    inputs: str
    expected: str
    yours: str
    which: Bilingual | None = None


@dataclass(frozen=True)
class Verdict:
    """Whether the code passed, and if not, why.

    exercise        name of the exercise
    passed          whether all cases passed
    kind            "passed", "mistake", "shape", "values", "error", "timeout", …
    mistake         name of the mistake; two joined by + if the code made two; None if no mistake is certain
    sure            whether the mistake explains all returned values on every case, or only one of them
    title, message  what happened, in both languages
    failing         the first case that failed
    hints           hints for this verdict, by language
    printed         what the code printed
    cases, seed     number of cases, and the seed that draws them again
    seconds         duration of the run
    isolated        whether the kernel kept the code away from files, processes and the network

    >>> from regard.learn import grade
    >>> verdict = grade("softmax", "def softmax(x): return x", seed=0)
    >>> verdict.passed, verdict.kind, verdict.title["en"]
    (False, 'mistake', 'The scores are used as weights')
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
    isolated: bool = True

    def __post_init__(self) -> None:
        """Bound and escape what may contain text of the learner's process."""
        for name, longest in (("title", 300), ("message", 3000)):
            texts = getattr(self, name)
            object.__setattr__(self, name, {language: visible_text(text, longest) for language, text in texts.items()})
        if self.failing is not None:
            yours = visible_text(self.failing.yours, 10_000)
            object.__setattr__(self, "failing", replace(self.failing, yours=yours))

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as JSON values."""
        return asdict(self)
