"""Find the mistakes whose results agree with those of a learner's program.

The model of the exercise is evaluated with every single mistake, then with every pair of mistakes in different parts. A
mistake is reported only if it gives the learner's results on every case. The cases are drawn so that different mistakes
give different results; where two mistakes cannot be told apart, both are reported.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import Any

import numpy as np

from regard.learn.exercise import Exercise
from regard.learn.mistakes.parts import RIGHT, Made, Parts, base_name
from regard.learn.sandbox.serialization import Array

Outcome = Mapping[str, Any]
Values = tuple[np.ndarray, ...]

MANY, PAIRED = 60, 9  # with more than MANY mistakes, the PAIRED most frequent ones of each part are combined
ALSO_PAIRED = ("no-keepdims", "no-keepdims:sum", "softmax-twice", "distance:root", "distance:positive")
ONLY_BY_ERRORS = ("odd-width", "unchecked", "square-only")  # certain from the cases in which an error is raised


@dataclass(frozen=True)
class Recognised:
    """One or two mistakes that explain the results; `others` are mistakes that would explain them as well.

    `value` is the index of the returned value that they explain, None if they explain all.
    """

    mistakes: tuple[str, ...]
    others: tuple[tuple[str, ...], ...] = ()
    value: int | None = None


@dataclass
class Candidates:
    """The results of the exercise's model with mistakes, computed when needed."""

    exercise: Exercise
    arguments: Sequence[tuple[Any, ...]]
    outcomes: Sequence[Outcome]
    wrong: Sequence[int]
    _results: dict[tuple[Any, int], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = [as_values(outcome.get("value")) if "value" in outcome else None for outcome in self.outcomes]
        self.tolerance = (2e-3, 1e-4) if self.exercise.uses == "torch" else (1e-6, 1e-9)
        if any(isinstance(v, Array) and v.dtype == "float32" for o in self.outcomes for v in _leaves(o.get("value"))):
            self.tolerance = (2e-3, 1e-4)
        with_values = [i for i in self.wrong if self.values[i] is not None]
        # The first case is the smallest, in which sizes coincide: it tells mistakes apart least.
        ranked = sorted(with_values, key=lambda i: (i == 0, not _is_finite(self.values[i]), _sizes(self.values[i])))
        self.order = [*ranked, *(i for i in range(len(self.outcomes)) if i not in ranked)]

    def all_constant(self) -> bool:
        """Return whether every array of the wrong results has only one value, which many mistakes would give."""
        values = [v for i in self.wrong for v in self.values[i] or ()]
        return all(v.size == 0 or bool(np.all(v == v.flat[0])) for v in values)

    @property
    def parts(self) -> Parts:
        """Return the mistakes of each part of the exercise."""
        parts: Parts = self.exercise.model.PARTS
        return parts

    def singles(self) -> list[Made]:
        """Return every single mistake of the model."""
        return [{part: mistake} for part, mistakes in self.parts.items() for mistake in mistakes]

    def pairs(self) -> Iterator[Made]:
        """Yield the pairs of mistakes in different parts, the ones made most often first.

        If there are many, only the `PAIRED` most frequent mistakes of each part are combined.
        """
        of_parts = self.parts
        if sum(map(len, of_parts.values())) > MANY:
            frequent = {part: [m for m in names if ":" not in m][:PAIRED] for part, names in of_parts.items()}
            also = {part: [m for m in names if m in ALSO_PAIRED] for part, names in of_parts.items()}
            of_parts = {part: list(dict.fromkeys([*frequent[part], *also[part]])) for part in of_parts}
        ranked = [(rank, part, m) for part, names in of_parts.items() for rank, m in enumerate(names)]
        ranked.sort(key=lambda item: item[0])
        for (_, part, mistake), (_, other_part, other) in combinations(ranked, 2):
            if part != other_part:
                yield {part: mistake, other_part: other}

    def agrees(self, made: Made, value: int | None = None) -> bool:
        """Return whether the mistakes give the learner's results on every case, or only its returned value `value`."""
        explained = False
        for i in self.order:
            result = self.result(made, i)
            if result is NotImplemented:
                return False
            yours = self.values[i]
            if isinstance(result, BaseException) or yours is None:
                if not self._same_error(result, i):
                    return False
                explained |= i in self.wrong and all(base_name(m) in ONLY_BY_ERRORS for m in made.values())
                continue
            if not self._same_values(result, yours, value):
                return False
            # A result that is right to this tolerance explains nothing.
            explained |= i in self.wrong and not self._is_right(result, i, value)
        return explained

    def result(self, made: Made, case: int) -> Any:
        """Return the values of the model, or the error it raises; NotImplemented if the mistake does not apply."""
        key = (tuple(sorted(made.items())), case)
        if key not in self._results:
            self._results[key] = evaluate(self.exercise, made, self.arguments[case])
        return self._results[key]

    def is_right(self, value: int) -> bool:
        """Return whether one of the returned values is right on every case."""
        pairs = [(self.result(RIGHT, i), values) for i, values in enumerate(self.values) if values is not None]
        return all(self._same_values(right, yours, value) for right, yours in pairs if isinstance(right, tuple))

    def _is_right(self, result: Values, case: int, value: int | None) -> bool:
        right = self.result(RIGHT, case)
        return isinstance(right, tuple) and self._same_values(result, right, value)

    def _same_error(self, result: Any, case: int) -> bool:
        outcome = self.outcomes[case]
        if not isinstance(result, BaseException) or "error" not in outcome:
            return False
        right = self.result(RIGHT, case)
        if isinstance(right, BaseException):  # an error is expected: its type counts
            return type(result).__name__ in outcome["error"]["bases"]
        return outcome["error"]["type"] not in ("NotImplementedError", "NameError", "AttributeError", "TypeError")

    def _same_values(self, result: Values, yours: Values, value: int | None) -> bool:
        if value is not None:
            if value >= min(len(result), len(yours)):
                return False
            return self._close(result[value], yours[value])
        return len(result) == len(yours) and all(self._close(*pair) for pair in zip(result, yours, strict=True))

    def _close(self, theirs: np.ndarray, yours: np.ndarray) -> bool:
        if theirs.shape != yours.shape:
            return False
        relative, absolute = self.tolerance
        absolute *= max(1.0, float(np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs))))
        with np.errstate(all="ignore"):
            return bool(np.isclose(yours, theirs, rtol=relative, atol=absolute, equal_nan=True).all())


def recognise(
    exercise: Exercise, arguments: Sequence[tuple[Any, ...]], outcomes: Sequence[Outcome], wrong: Sequence[int]
) -> Recognised | None:
    """Return the mistakes that explain the outcomes of a learner's program; None if none are certain.

    `arguments` are those of the cases, `wrong` the indices of the cases with a wrong outcome.
    """
    candidates = Candidates(exercise, arguments, outcomes, wrong)
    found = _recognise(candidates, None)
    count = len(exercise.results)
    if found or count < 2 or not getattr(exercise.model, "INDEPENDENT_VALUES", True):
        return found
    if any(values is not None and len(values) != count for values in candidates.values):
        return None
    for value in range(count):
        if not candidates.is_right(value) and (found := _recognise(candidates, value)):
            return found
    return None


def _recognise(candidates: Candidates, value: int | None) -> Recognised | None:
    agreeing = [made for made in candidates.singles() if candidates.agrees(made, value)]
    pairs = value is None or candidates.exercise.results[value].startswith("weights")
    if not agreeing and pairs and not candidates.all_constant():
        agreeing = _first_agreeing(candidates, candidates.pairs(), value)
    if (
        not agreeing
        and value is None
        and any(_has_nan(values) for values in candidates.values)
        and "maximum" in candidates.parts
    ):
        unstable = {"maximum": "unstable"}
        triples = ({**made, **unstable} for made in candidates.pairs() if "maximum" not in made)
        agreeing = _first_agreeing(candidates, triples, value)
    if not agreeing:
        return None
    names = [tuple(n for part, m in made.items() for n in _names(m, candidates.parts[part])) for made in agreeing]
    return Recognised(names[0], tuple(_distinct(names)), value)


def _names(mistake: str, of_part: Sequence[str]) -> list[str]:
    """Return the mistakes that one stands for: two if its detail is a mistake of the same part."""
    base, _, detail = mistake.partition(":")
    return [base, detail] if detail in of_part else [mistake]


def _first_agreeing(candidates: Candidates, several: Iterator[Made], value: int | None) -> list[Made]:
    """Return the first three combinations of mistakes that agree."""
    return list(islice((made for made in several if candidates.agrees(made, value)), 3))


def _has_nan(values: Values | None) -> bool:
    return values is not None and any(np.isnan(v).any() for v in values)


def evaluate(exercise: Exercise, made: Made, arguments: tuple[Any, ...]) -> Any:
    """Return the values of the exercise's model with these mistakes, or the error it raises.

    Return NotImplemented if the mistake does not apply to these arguments.
    """
    try:
        with np.errstate(all="ignore"):
            result = exercise.model.model(made, *arguments)
    except KeyError:
        return NotImplemented
    except Exception as error:
        return error
    return result if isinstance(result, tuple) else (result,)


def model_arguments(value: Any, dtype: type = np.float64) -> Any:
    """Return the arguments of a case with all numbers in this dtype, as the model takes them."""
    if isinstance(value, np.ndarray):
        return value.astype(dtype) if value.dtype.kind == "f" else value
    if isinstance(value, tuple | list):
        return type(value)(model_arguments(item, dtype) for item in value)
    if isinstance(value, dict):
        return {key: model_arguments(item, dtype) for key, item in value.items()}
    return value


def as_values(value: Any) -> Values | None:
    """Return a returned value as a tuple of arrays; None if it contains anything else."""
    items = list(value) if isinstance(value, tuple | list) and not isinstance(value, Array) else [value]
    arrays = []
    for item in items:
        if isinstance(item, Array):
            arrays.append(item.values)
        elif isinstance(item, int | float) and not isinstance(item, bool):
            arrays.append(np.asarray(float(item)))
        else:
            return None
    return tuple(arrays)


def _leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) and not isinstance(value, Array) else [value]


def _is_finite(values: Values | None) -> bool:
    return values is not None and all(np.isfinite(v).all() for v in values if v.dtype.kind == "f")


def _sizes(values: Values | None) -> int:
    return sum(v.size for v in values or ())


def _distinct(names: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return the alternatives after the first whose names differ from it, without details."""
    seen, kept = {frozenset(map(base_name, names[0]))}, []
    for name in names[1:]:
        base = frozenset(map(base_name, name))
        if base not in seen:
            seen.add(base)
            kept.append(name)
    return kept
