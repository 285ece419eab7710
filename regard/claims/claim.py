"""Data types of a claim: the statement, its experiment, and the conclusion that its rule draws from the results.

A verdict is never stored. `Claim.judge` computes it from the rows of a result each time it is shown, by the rule that
is printed beside it.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from regard.claims.charts.chart import Chart
from regard.languages import Bilingual, bilingual

Row = dict[str, Any]  # one measurement: numbers, texts, booleans or None by name
Settings = Mapping[str, Any]
Size = Literal["tiny", "default", "full"]
SIZES: tuple[Size, ...] = ("tiny", "default", "full")
Verdict = Literal["holds", "holds when", "does not hold here", "undecided"]
Answer = Literal["yes", "no", "undecided"]

VERDICTS_IN_CHINESE: Mapping[Verdict, str] = {
    "holds": "成立",
    "holds when": "有条件成立",
    "does not hold here": "此处不成立",
    "undecided": "未决",
}
REASONS_IN_CHINESE = {"not learnt": "未学会", "not run": "未运行"}


@dataclass(frozen=True)
class Figure:
    """A number of a conclusion, with its 95 % interval over the seeds; no interval if it is the same for all seeds."""

    name: Bilingual
    value: float
    low: float | None = None
    high: float | None = None
    unit: str = ""

    def __str__(self) -> str:
        """Return the number, its unit and its interval as text.

        >>> str(Figure({"en": "accuracy", "zh": "准确率"}, 0.9734, 0.961, 0.985, "%"))
        '97.3 % (96.1 … 98.5)'
        """
        text = f"{_format(self.value, self.unit)} {self.unit}".rstrip()
        if self.low is None or self.high is None:
            return text
        return f"{text} ({_format(self.low, self.unit)} … {_format(self.high, self.unit)})"


@dataclass(frozen=True)
class Finding:
    """The answer to one statement of a claim.

    effect      measured effect, with the interval that decides; None for facts and for what was not measured
    threshold   smallest effect of interest; None for facts
    below       whether the effect must be below the threshold
    seeds       number of seeds that decide: those measured, or for "undecided" an estimate; None if there is none
    required    whether the claim does not hold if this statement is false
    confidence  confidence of the interval, higher than 95 % if the claim compares several things
    """

    name: Bilingual
    answer: Answer
    effect: Figure | None = None
    threshold: float | None = None
    below: bool = False
    seeds: int | None = None
    required: bool = False
    confidence: float = 0.95

    @property
    def threshold_text(self) -> str:
        """Return the threshold as text, "" if there is none."""
        if self.effect is None or self.threshold is None:
            return ""
        number = f"{_format(self.threshold, self.effect.unit)} {self.effect.unit}".rstrip()
        return f"{'<' if self.below else '>'} {number}"


@dataclass(frozen=True)
class Conclusion:
    """Result of the rule of a claim, applied to the measured rows.

    verdict     whether the claim holds
    sentence    the verdict explained in one sentence
    figures     further numbers of the experiment
    notes       further findings that are texts rather than numbers
    findings    the answers to the statements, which the verdict follows from
    reason      why the verdict is "undecided", if not for want of seeds: "not learnt"

    >>> from regard.claims import claim_named, find
    >>> claim_named("mask").judge(find("mask").rows).verdict
    'holds'
    """

    verdict: Verdict
    sentence: Bilingual
    figures: tuple[Figure, ...] = ()
    notes: tuple[Bilingual, ...] = ()
    findings: tuple[Finding, ...] = ()
    reason: Literal["", "not learnt"] = ""

    @property
    def effect(self) -> Figure | None:
        """Return the first measured effect, which stands for the claim in tables."""
        return next((one.effect for one in self.findings if one.effect is not None), None)

    @property
    def verdict_in_words(self) -> Bilingual:
        """Return the verdict with its reason.

        >>> Conclusion("undecided", {"en": "", "zh": ""}, reason="not learnt").verdict_in_words["en"]
        'undecided: not learnt'
        """
        en, zh = str(self.verdict), VERDICTS_IN_CHINESE[self.verdict]
        return (
            bilingual(f"{en}: {self.reason}", f"{zh}：{REASONS_IN_CHINESE[self.reason]}")
            if self.reason
            else bilingual(en, zh)
        )


@dataclass(frozen=True)
class Claim:
    """A claim and its experiment.

    name            name on the command line
    title           short title
    statement       the claim as the documents state it
    source          the documents that state the claim
    experiment      what is measured, and against which baseline
    rule            how the verdict follows from the numbers
    sizes           settings for each size; "seeds" is the number of repetitions
    parts           (settings) → the settings of each part of one seed; finished parts are stored
    measure         (settings, part, seed) → rows
    judge           (rows of all parts and seeds) → conclusion
    draw            (rows) → chart
    timed           whether times are measured, which needs an otherwise idle machine

    >>> from regard.claims import claim_named
    >>> claim_named("mask").sizes["default"]["seeds"]
    10
    """

    name: str
    title: Bilingual
    statement: Bilingual
    source: tuple[Bilingual, ...]
    experiment: Bilingual
    rule: Bilingual
    sizes: Mapping[Size, Settings]
    parts: Callable[[Settings], Sequence[Settings]]
    measure: Callable[[Settings, Settings, int], list[Row]]
    judge: Callable[[list[Row]], Conclusion]
    draw: Callable[[list[Row]], Chart]
    timed: bool = False


def _format(value: float, unit: str) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return "–"
    if unit == "%":
        return f"{100 * value:.1f}"
    if value and (abs(value) >= 100_000 or abs(value) < 0.001):
        return f"{value:.2g}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"
