"""What a claim is: what is said, what is done about it, and the rule that makes a verdict of the numbers.

A verdict is never typed in. It is computed from the rows of a result whenever it is shown, by the claim's own
`judge`, and the rule that `judge` follows stands beside it in words.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.claims.charts.chart import Chart
from regard.languages import Bilingual

Row = dict[str, Any]  # a measurement: numbers, names, truths, None
Settings = Mapping[str, Any]
Size = Literal["tiny", "default", "full"]
SIZES: tuple[Size, ...] = ("tiny", "default", "full")
Verdict = Literal["holds", "holds when", "does not hold here"]

IN_CHINESE: Mapping[Verdict, str] = {"holds": "成立", "holds when": "有条件成立", "does not hold here": "此处不成立"}


def words(en: str, zh: str) -> Bilingual:
    """The same thing, said in both languages.

    >>> words("holds", "成立")["zh"]
    '成立'
    """
    return {"en": en, "zh": zh}


@dataclass(frozen=True)
class Figure:
    """A number of the result with its 95 % interval over the seeds; no interval where nothing varies."""

    name: Bilingual
    value: float
    low: float | None = None
    high: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        """The number as text.

        >>> str(Figure(words("accuracy", "准确率"), 0.9734, 0.961, 0.985, "%"))
        '97.3 % (96.1 … 98.5)'
        """
        shown = _number(self.value, self.unit)
        if self.low is None or self.high is None:
            return f"{shown} {self.unit}".rstrip()
        between = f"({_number(self.low, self.unit)} … {_number(self.high, self.unit)})"
        return " ".join(part for part in (shown, self.unit, between) if part)


@dataclass(frozen=True)
class Judgement:
    """The verdict, why, the figures it follows from, and what is told by words rather than numbers."""

    verdict: Verdict
    sentence: Bilingual
    figures: tuple[Figure, ...] = ()
    notes: tuple[Bilingual, ...] = ()


@dataclass(frozen=True)
class Claim:
    """A claim and its experiment.

    name            what the command calls it
    title           a few words
    says            the claim as the documents make it
    source          which of the documents make it
    experiment      what is done, with the baseline
    rule            how the verdict follows from the numbers
    sizes           the settings at each size; "seeds" among them says how often everything is repeated
    parts           the pieces of one seed, each a handful of settings; a piece that is done is kept
    measure         (settings, part, seed) → rows
    judge           rows of all parts and seeds → verdict
    draw            rows → plots
    timed           whether the clock is among the figures: such a result wants a quiet machine
    """

    name: str
    title: Bilingual
    says: Bilingual
    source: tuple[Bilingual, ...]
    experiment: Bilingual
    rule: Bilingual
    sizes: Mapping[Size, Settings]
    parts: Callable[[Settings], Sequence[Settings]]
    measure: Callable[[Settings, Settings, int], list[Row]]
    judge: Callable[[list[Row]], Judgement]
    draw: Callable[[list[Row]], Chart]
    timed: bool = False

    def __post_init__(self) -> None:
        if missing := [size for size in SIZES if size not in self.sizes]:
            raise ValueError(f"the claim {self.name!r} needs settings for {', '.join(SIZES)}; {missing} are missing")
        for name, both in (("title", self.title), ("says", self.says), ("rule", self.rule)):
            if set(both) != {"en", "zh"} or not all(both.values()):
                raise ValueError(f"{name} of the claim {self.name!r} must be said in en and zh, got {dict(both)}")


def _number(value: float, unit: str) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return "–"
    if unit == "%":
        return f"{100 * value:.1f}"
    if value and (abs(value) >= 100_000 or abs(value) < 0.001):
        return f"{value:.2g}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
