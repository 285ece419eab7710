"""Name the mistake in wrong outcomes, or state what is certain about them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regard.languages import LANGUAGES, Bilingual, bilingual, fill_in, read_texts
from regard.learn.exercise import Exercise
from regard.learn.grader.case import Case
from regard.learn.grader.compare import Difference
from regard.learn.grader.diagnose_difference import constant_factor, error_location, explain, message_texts, result_name
from regard.learn.mistakes import exceptions, facts, parts
from regard.learn.mistakes.recognise import Candidates, Recognised, model_arguments, recognise

TEXTS = Path(parts.__file__).with_name("texts.toml")


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong: the kind of verdict, its texts, and the mistake if one is named; `sure` if it explains all."""

    kind: str
    title: Bilingual
    message: Bilingual
    mistake: str | None = None
    sure: bool = True


def name_mistake(
    exercise: Exercise,
    source: str,
    cases: Sequence[Case],
    outcomes: Sequence[dict[str, Any]],
    differences: Sequence[Difference | None],
) -> Diagnosis:
    """Return the diagnosis of outcomes of which at least one differs from the expected one."""
    wrong = [i for i, difference in enumerate(differences) if difference]
    first = differences[wrong[0]]
    assert first is not None
    if first.kind == "error" and first.yours["type"] in ("NotImplementedError", "SystemExit", "KeyboardInterrupt"):
        return Diagnosis(*explain(exercise, first))
    dtype = np.float32 if exercise.uses == "torch" else np.float64
    arguments = [model_arguments(case.arguments, dtype) for case in cases]
    found = recognise(exercise, arguments, outcomes, wrong)
    if found is not None:
        return _named(exercise, found)
    candidates = Candidates(exercise, arguments, outcomes, wrong)
    if first.kind in ("error", "raised"):
        return _explain_error(exercise, source, first, outcomes, arguments)
    return _state_fact(exercise, candidates, first) or Diagnosis(*explain(exercise, first))


def mistake_texts(exercise: Exercise, mistake: str) -> tuple[Bilingual, Bilingual]:
    """Return title and advice of a mistake: those of the exercise, or else the shared ones."""
    key = parts.base_name(mistake)
    own = next((each for each in exercise.mistakes if each.key == key), None)
    if own is not None:
        return own.title, own.advice
    entry = read_texts(TEXTS)[key]
    title, advice = ({language: entry[language][part] for language in LANGUAGES} for part in (0, 1))
    detail = mistake.partition(":")[2]
    return fill_in(title, detail=detail), fill_in(advice, detail=detail)


def _named(exercise: Exercise, found: Recognised) -> Diagnosis:
    certain, alternatives = _certain(found)
    texts = [mistake_texts(exercise, mistake) for mistake in certain]
    if alternatives:
        first, second = (mistake_texts(exercise, mistake) for mistake in alternatives)
        texts.append(
            message_texts("or", first=first[0], second=second[0], advice=first[1], other_advice=second[1])
        )  # fmt: skip
    title, advice = texts[0] if len(texts) == 1 else _several(texts)
    if found.value is not None:
        more = message_texts("partly", value=result_name(exercise, found.value))[1]
        advice = {language: advice[language] + more[language] for language in LANGUAGES}
    name = "+".join(parts.base_name(mistake) for mistake in (*certain, *alternatives[:1]))
    return Diagnosis("mistake", title, advice, name, found.value is None)


def _several(texts: Sequence[tuple[Bilingual, Bilingual]]) -> tuple[Bilingual, Bilingual]:
    """Return one title and one numbered advice for several mistakes."""
    quoted = {language: [f"“{title[language]}”" for title, _ in texts] for language in LANGUAGES}
    titles = bilingual(", ".join(quoted["en"][:-1]) + " and " + quoted["en"][-1], "、".join(quoted["zh"]))
    advice = {
        language: "\n".join(f"{n}. {advice[language]}" for n, (_, advice) in enumerate(texts, 1))
        for language in LANGUAGES
    }
    return message_texts(f"mistakes-{len(texts)}", titles=titles, advice=advice)


def _certain(found: Recognised) -> tuple[list[str], list[str]]:
    """Return the mistakes that all explanations share, and two that they disagree about, if any."""
    if not found.others:
        return list(found.mistakes), []
    names = [{parts.base_name(mistake) for mistake in each} for each in (found.mistakes, *found.others)]
    shared = set.intersection(*names)
    certain = [mistake for mistake in found.mistakes if parts.base_name(mistake) in shared]
    rest = [[m for m in each if parts.base_name(m) not in shared] for each in (found.mistakes, *found.others)]
    if any(len(each) != 1 for each in rest) or len(rest) > 2:
        # Explanations that have little in common: the first one, whose mistakes are made more often.
        return list(found.mistakes), []
    return certain, [each[0] for each in rest]


def _explain_error(
    exercise: Exercise,
    source: str,
    first: Difference,
    outcomes: Sequence[dict[str, Any]],
    arguments: Sequence[tuple[Any, ...]],
) -> Diagnosis:
    error = first.yours
    raised = [i for i, outcome in enumerate(outcomes) if "error" in outcome]
    axes = [_axes(case) for case in arguments]
    key = exceptions.cause_of(exercise, source, error, raised, axes) if first.kind == "error" else None
    where = message_texts("error", where=error_location(error), **error)[1]
    if key is None:
        kind, title, message = explain(exercise, first)
        if len(raised) < len(outcomes) and kind == "error" and all(axes[i] > 2 for i in raised) and min(axes) <= 2:
            more = message_texts("only-with-batch")[1]
            message = {language: message[language] + more[language] for language in LANGUAGES}
        return Diagnosis(kind, title, message)
    if key in read_texts(TEXTS):
        title, advice = mistake_texts(exercise, key)
        message = {language: f"{advice[language]}\n\n{where[language]}" for language in LANGUAGES}
        return Diagnosis("mistake", title, message, key)
    title, advice = message_texts(key, where=error_location(error), **error)
    return Diagnosis(
        "error" if key == "sizes-differ" else "mistake", title, advice, None if key == "sizes-differ" else key
    )


def _axes(arguments: tuple[Any, ...]) -> int:
    return next((value.ndim for value in arguments if isinstance(value, np.ndarray)), 0)


def _state_fact(exercise: Exercise, candidates: Candidates, first: Difference) -> Diagnosis | None:
    """Return a diagnosis from properties of the numbers; None if nothing is certain beyond the difference itself."""
    case = facts.first_values(candidates.values, candidates.wrong)
    if case is None:
        return None
    right, yours = candidates.result(parts.RIGHT, case), candidates.values[case]
    if not isinstance(right, tuple) or yours is None or len(right) != len(yours):
        return None
    if candidates.all_constant():
        return None
    precision = facts.precision_mistake(candidates)
    if precision is not None:
        key, _, digits = precision.partition(":")
        return Diagnosis("mistake", *message_texts(key, digits=digits), key)
    names = exercise.results
    weights = next((i for i, name in enumerate(names) if name.startswith("weights")), None)
    if weights is not None:
        fact = facts.scale_fact(candidates, weights)
        if fact:
            key, values = fact
            return Diagnosis("mistake", *message_texts(key, **values), key)
    if names[0] == "scores":
        factor = _factor_of_scores(candidates)
        if factor is not None:
            return factor
    if first.kind != "values" or (first.which is None and len(right) > 1):
        return None
    return _located(exercise, candidates, right, yours, first.which or 0, weights)


def _factor_of_scores(candidates: Candidates) -> Diagnosis | None:
    ratios, constants = [], []
    for i in candidates.wrong:
        right, unscaled, yours = (
            candidates.result({}, i),
            candidates.result({"scale": "unscaled"}, i),
            candidates.values[i],
        )
        if yours is None or not isinstance(right, tuple) or yours[0].shape != right[0].shape:
            return None
        ratio = constant_factor(right[0], yours[0])
        root = constant_factor(right[0], unscaled[0])
        if ratio is None or root is None:
            return None
        ratios.append(ratio)
        constants.append(ratio / root)
    if len(ratios) < 2:
        return None
    if np.ptp(constants) < 1e-6 * abs(np.mean(constants)) and np.ptp(ratios) > 1e-3:
        return Diagnosis(
            "mistake", *message_texts("constant-scale", factor=float(np.mean(constants))), "constant-scale"
        )
    return None


def _located(
    exercise: Exercise, candidates: Candidates, right: Any, yours: Any, which: int, weights: int | None
) -> Diagnosis | None:
    value = result_name(exercise, which)
    same = facts.equal_slices(yours[which], right[which])
    if same is not None:
        return Diagnosis("equal", *message_texts("equal", value=value, axis=same))
    part = facts.right_part(right[which], yours[which], candidates.tolerance)
    if part is not None:
        axis, indices = part
        shown = ", ".join(map(str, indices[:6])) + (", …" if len(indices) > 6 else "")
        return Diagnosis("partly-right", *message_texts("partly-right", value=value, axis=axis, indices=shown))
    if weights is not None and which != weights and which == weights - 1:
        relative, absolute = candidates.tolerance
        if np.allclose(yours[weights], right[weights], rtol=relative, atol=absolute, equal_nan=True):
            return Diagnosis("mixing", *message_texts("mixing", value=value, weights=result_name(exercise, weights)))
    return None
