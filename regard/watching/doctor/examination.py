"""Runs all checks on the calls of a recording and collects what they find."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch import nn

from regard.watching.call import Call
from regard.watching.doctor import (
    hidden_keys,
    idle_heads,
    layers,
    numbers,
    scale,
    stored_statistics,
    wrong_pairs,
)
from regard.watching.doctor.arguments import read_padding
from regard.watching.doctor.findings import ALL_CHECKS, Finding, Findings
from regard.watching.doctor.subject import Subject, make_subjects, matches
from regard.watching.readers.eager.trails import WRONG_AXIS

Check = Callable[[], list[Finding] | str]

UNKNOWN_POSITIONS = "the positions of the queries among the keys are not known; give them to regard.watch(positions=)"


def examine(
    model: nn.Module,
    calls: list[Call],
    *,
    padding: Any = None,
    causal: Any = False,
    documents: Any = None,
    unseen: Sequence[tuple[str, str]] = (),
    complete: bool = True,
) -> Findings:
    """Return everything that looks wrong with the calls; `Recording.check` describes the arguments.

    unseen      modules that attend but made no call that could be recorded, with the reason
    complete    whether all calls of the model were recorded
    """
    subjects = make_subjects(model, calls, padding, documents)
    shape = None if padding is None or isinstance(padding, Mapping) else tuple(read_padding(padding).shape)
    results = Findings(finding for subject in subjects for finding in layers.find_swapped_axes(subject, shape))
    for name, reason in unseen:
        if reason == WRONG_AXIS:
            results.append(numbers.wrong_axis(name))
        else:
            results.add_not_checked(name, ALL_CHECKS, f"not recorded: {reason}")
    for check, fits in (("padding", lambda x: x.real is not None), ("documents", lambda x: x.documents is not None)):
        reasons = [subject.misfit[check] for subject in subjects if check in subject.misfit]
        if reasons and not results and not any(map(fits, subjects)):
            raise ValueError(f"{check}= fits no call: {reasons[0]}")
    for subject in subjects:
        checks = _checks_of_call(subject, causal, padding is not None, documents is not None)
        _run(checks, subject, results)
    results += layers.find_repeated_layers(model, subjects, complete=complete)
    results += layers.find_wrong_sequence(subjects)
    results += layers.find_cache_errors(subjects)
    for subject in subjects:
        results.add_checked(subject.call.name, "layers")
    return results


def _run(checks: Iterator[tuple[str, Check | str]], subject: Subject, results: Findings) -> None:
    """Make the checks of a call. After a NaN in queries or keys the others are meaningless."""
    name, inverted = subject.call.name, False
    for check, function in checks:
        if check == "hidden tokens" and inverted:
            continue
        outcome = function() if callable(function) else function
        if isinstance(outcome, str):
            results.add_not_checked(name, check, outcome)
            continue
        results += outcome
        results.add_checked(name, check)
        inverted |= any(finding.what == "mask inverted" for finding in outcome)
        if check == "numbers" and outcome and (not subject.is_eager or not bool(subject.relevant.any())):
            return


def _checks_of_call(subject: Subject, causal: Any, padding: bool, documents: bool) -> Iterator[tuple[str, Check | str]]:
    """Yield the name and the function of each check of a call, or the reason why it cannot be made."""
    call = subject.call
    applies = _why_not_causal(subject, causal)
    if not subject.has_weights:
        yield from _checks_of_statistics(subject, applies, padding)
        return
    yield "numbers", lambda: numbers.find_not_finite(subject)
    yield "empty rows", lambda: hidden_keys.find_empty_rows(subject)
    if padding:
        yield "padding", subject.unknown.get("padding") or (lambda: wrong_pairs.find_padding(subject))
    if applies is not None:
        yield "future", applies or (lambda: wrong_pairs.find_future(subject))
    if documents:
        reason = subject.unknown.get("documents") or ("" if subject.positions is not None else UNKNOWN_POSITIONS)
        yield "documents", reason or (lambda: wrong_pairs.find_other_documents(subject))
    if subject.cross or (subject.positions is not None and (applies == "" or subject.real is not None)):
        yield "hidden tokens", lambda: hidden_keys.find_hidden_keys(subject)
    if not subject.cross and call.shape[2] < call.shape[3]:
        yield "cache", lambda: hidden_keys.find_top_left(subject)
        yield "cache", lambda: hidden_keys.find_empty_cache(subject)
    window = layers.stated_window(subject)
    if window is not None and subject.positions is not None and call.shape[3] > window + 1:
        yield "window", lambda: wrong_pairs.find_outside_window(subject, window)
    yield "scale", lambda: scale.find_scale(subject)
    yield "weights", lambda: numbers.find_wrong_sums(subject)
    yield "mask", lambda: numbers.find_mask_as_numbers(subject)
    yield "mask", lambda: numbers.find_inverted_bias(subject)
    yield "dropout", lambda: numbers.find_dropout(subject)
    yield "heads", lambda: idle_heads.find_idle_heads(subject)
    yield "heads", lambda: layers.find_head_order(subject)
    yield "values", lambda: idle_heads.find_dead_values(subject)


def _checks_of_statistics(subject: Subject, applies: str | None, padding: bool) -> Iterator[tuple[str, Check | str]]:
    yield "empty rows", lambda: hidden_keys.find_empty_rows(subject)
    if padding:
        yield "padding", subject.unknown.get("padding") or (lambda: stored_statistics.find_padding(subject))
    if applies is not None:
        yield "future", applies or (lambda: stored_statistics.find_future(subject))
    yield "heads", lambda: stored_statistics.find_idle_heads(subject, causal=applies == "")
    yield "dropout", lambda: numbers.find_dropout(subject)
    for check in ("numbers", "documents", "hidden tokens", "scale", "values"):
        yield check, "keep='statistics' stores no queries, keys and values; watch with keep='inputs'"


def _why_not_causal(subject: Subject, causal: Any) -> str | None:
    """Return "" if the call should be causal, the reason if that cannot be checked, None if it was not requested."""
    if not matches(causal, subject.call.name):
        return None
    if subject.cross:
        return "cross-attention: its keys are another sequence"
    if causal is True and subject.role in ("encoder", "tower"):
        return "an encoder sees the whole sequence; to check it, give causal= the pattern of its path"
    return "" if subject.positions is not None else UNKNOWN_POSITIONS
