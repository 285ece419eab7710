"""Statements that a claim consists of, decided by intervals, and the verdict that follows from the answers.

A `Statement` says that an effect is above (or below) a threshold, the smallest effect of interest. It is answered "yes"
or "no" only if the whole interval is on one side of the threshold, otherwise "undecided". The statements of one claim
are several comparisons: Holm's procedure lowers the level of each so that all answers together are right in 95 % of
repetitions. The k-th smallest of m p-values is compared with 0.05 / (m − k + 1), until the first that is not below.
The interval that is shown has the level at which the statement was decided.

A `Fact` has no threshold: it was true or false in each seed, and is undecided if the seeds disagree.

    undecided: not learnt    a reference arm does not reach its stated accuracy: the experiment shows nothing
    does not hold here       a required statement is answered "no", or, if none is required, all are
    holds                    all statements are answered "yes"
    holds when               some are "yes" and some "no", and no required one is undecided
    undecided                anything else
"""

from collections.abc import Sequence
from dataclasses import dataclass

from regard.claims.claim import Answer, Conclusion, Figure, Finding, Verdict
from regard.claims.definition import enumerate_in_words
from regard.claims.statistics.confidence_intervals import LEVEL, Scale, interval, p_value, seeds_to_decide
from regard.languages import Bilingual, bilingual, fill_in

UNITS = {"plain": "", "difference": "%", "ratio": "×", "share": "%"}


@dataclass(frozen=True)
class Statement:
    """An effect, with one value per seed, and the threshold that it must be above, or below.

    required    whether the claim does not hold if this statement is false
    """

    name: Bilingual
    values: Sequence[float]
    threshold: float
    scale: Scale = "plain"
    below: bool = False
    required: bool = False


@dataclass(frozen=True)
class Fact:
    """A statement that was true or false in each seed."""

    name: Bilingual
    outcomes: Sequence[bool]
    required: bool = False


@dataclass(frozen=True)
class Reference:
    """Accuracy, one value per seed, of an arm that must have learnt its task: the mean must be at least `least`."""

    name: Bilingual
    values: Sequence[float]
    least: float


def answer_all(statements: Sequence[Statement | Fact]) -> tuple[Finding, ...]:
    """Return the answer to each statement, with the level of its interval by Holm's procedure.

    >>> clear = Statement({"en": "a", "zh": "a"}, [1.0, 1.1, 1.2], 0.5)
    >>> unclear = Statement({"en": "b", "zh": "b"}, [0.2, 0.6, 0.9], 0.5)
    >>> [(one.answer, one.seeds) for one in answer_all([clear, unclear])]
    [('yes', 3), ('undecided', 110)]
    """
    levels = _levels([one for one in statements if isinstance(one, Statement) and one.values])
    return tuple(_answer(one, levels) for one in statements)


def conclude(
    statements: Sequence[Statement | Fact],
    figures: Sequence[Figure] = (),
    *,
    references: Sequence[Reference] = (),
    holds: Bilingual | None = None,
    fails: Bilingual | None = None,
    notes: Sequence[Bilingual] = (),
) -> Conclusion:
    """Return the verdict on a claim.

    holds, fails    sentences for *holds* and *does not hold here*; by default the statements are listed
    """
    findings = answer_all(statements)
    for reference in references:
        reached = sum(reference.values) / len(reference.values) if reference.values else 0.0
        if reached < reference.least:
            values = {"name": reference.name, "reached": f"{100 * reached:.1f}", "least": f"{100 * reference.least:g}"}
            return Conclusion(
                "undecided", fill_in(NOT_LEARNT, **values), tuple(figures), tuple(notes), findings, "not learnt"
            )
    verdict = verdict_of(findings)
    sentence = {"holds": holds, "does not hold here": fails}.get(verdict) or _list_answers(findings)
    return Conclusion(verdict, sentence, tuple(figures), tuple(notes), findings)


def verdict_of(findings: Sequence[Finding]) -> Verdict:
    """Return the verdict that follows from the answers, as the head of this module defines it."""
    required = [one.answer for one in findings if one.required]
    answers = [one.answer for one in findings]
    if "no" in required or (not required and set(answers) == {"no"}):
        return "does not hold here"
    if set(answers) == {"yes"}:
        return "holds"
    if "undecided" not in required and "no" in answers and "yes" in answers:
        return "holds when"
    return "undecided"


NOT_LEARNT = bilingual(
    "The reference arm has not learnt its task: {name} is {reached} %, and at least {least} % is required.",
    "参照组没有学会任务：{name}为 {reached}%，要求至少 {least}%。",
)
LISTED: dict[Answer, Bilingual] = {
    "yes": bilingual("True here: {names}.", "此处为真：{names}。"),
    "no": bilingual("Not true here: {names}.", "此处不真：{names}。"),
    "undecided": bilingual("Undecided: {names}.", "尚不能判定：{names}。"),
}
SEEDS_NEEDED = bilingual("{name} (about {seeds:,} seeds would decide it)", "{name}（约需 {seeds:,} 个种子）")
MANY_SEEDS = bilingual(
    "{name} (more than 10,000 seeds, or at least a second one, would be needed)",
    "{name}（需要 1 万个以上的种子，或至少再有一个）",
)
NOT_MEASURED = bilingual("{name} (not measured)", "{name}（未测）")
DISAGREE = bilingual("{name} (the seeds disagree)", "{name}（各种子结果不一）")


def _levels(statements: Sequence[Statement]) -> dict[int, tuple[float, bool]]:
    """Return, by id of the statement, the level of its interval and whether Holm's procedure decides it."""
    tested = sorted((p_value(one.values, one.threshold, one.scale), n) for n, one in enumerate(statements))
    levels: dict[int, tuple[float, bool]] = {}
    decided, level = True, LEVEL
    for rank, (p, n) in enumerate(tested):
        if decided:
            level = LEVEL / (len(tested) - rank)
            decided = p < level
        levels[id(statements[n])] = level, decided
    return levels


def _answer(one: Statement | Fact, levels: dict[int, tuple[float, bool]]) -> Finding:
    if isinstance(one, Fact):
        outcomes = {bool(outcome) for outcome in one.outcomes}
        fact: Answer = "undecided" if len(outcomes) != 1 else "yes" if outcomes.pop() else "no"
        return Finding(one.name, fact, required=one.required)
    if not one.values:
        return Finding(one.name, "undecided", threshold=one.threshold, below=one.below, required=one.required)
    level, decided = levels[id(one)]
    effect = interval(one.values, one.scale, level)
    measured: Answer = "undecided" if not decided else "yes" if (effect.mean > one.threshold) != one.below else "no"
    seeds = len(one.values) if decided else seeds_to_decide(one.values, one.threshold, one.scale, level)
    figure = Figure(one.name, *effect, unit=UNITS[one.scale])
    return Finding(one.name, measured, figure, one.threshold, one.below, seeds, one.required, 1 - level)


def _list_answers(findings: Sequence[Finding]) -> Bilingual:
    """Return a sentence for each answer with the names of its statements."""
    sentences = []
    for answer, form in LISTED.items():
        names = [_with_seeds(one) for one in findings if one.answer == answer]
        if names:
            sentences.append(fill_in(form, names=enumerate_in_words(names, "; ", "；")))
    return enumerate_in_words(sentences, " ", "")


def _with_seeds(finding: Finding) -> Bilingual:
    if finding.answer != "undecided":
        return finding.name
    if finding.effect is None:
        return fill_in(DISAGREE if finding.threshold is None else NOT_MEASURED, name=finding.name)
    if finding.seeds is None:
        return fill_in(MANY_SEEDS, name=finding.name)
    return fill_in(SEEDS_NEEDED, name=finding.name, seeds=finding.seeds)
