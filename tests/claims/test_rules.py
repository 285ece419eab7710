"""Verdicts computed from made-up rows by the rules of the claims."""

from typing import Any

import pytest

from regard.claims import claim_named
from regard.claims.claim import Row

SEEDS = range(3)


def verdict(name: str, rows: list[Row]) -> str:
    return claim_named(name).judge(rows).verdict


def accuracies(retrieval: float, majority: float) -> list[Row]:
    """Return rows with these accuracies of attention on the two tasks, and 0.4 for every fixed mean."""
    ways = ("attention", "plain mean", "random weights", "learned by place")
    return [
        {"seed": seed, "task": task, "way": way, "accuracy": (score if way == "attention" else 0.4) + 0.001 * seed}
        for seed in SEEDS
        for task, score in (("find one", retrieval), ("most frequent", majority))
        for way in ways
    ]


@pytest.mark.parametrize(
    ("retrieval", "majority", "expected"),
    [(0.9, 0.9, "holds"), (0.9, 0.4, "holds when"), (0.4, 0.4, "does not hold here"), (0.2, 0.3, "does not hold here")],
)
def test_learned_mean(retrieval: float, majority: float, expected: str) -> None:
    assert verdict("learned-mean", accuracies(retrieval, majority)) == expected


def mask_rows(on: float, off_training: float, off_generation: float, leak: float = 0.0) -> list[Row]:
    return [
        row
        for seed in SEEDS
        for row in (
            {"seed": seed, "way": "mask on", "training": on, "generation": on, "leak": leak},
            {"seed": seed, "way": "mask off", "training": off_training, "generation": off_generation, "leak": 1.0},
        )
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (mask_rows(0.99, 0.99, 0.15), "holds"),
        (mask_rows(0.99, 0.99, 0.6), "holds when"),
        (mask_rows(0.99, 0.99, 0.99), "does not hold here"),
        (mask_rows(0.99, 0.99, 0.15, leak=0.5), "does not hold here"),
    ],
)
def test_mask(rows: list[Row], expected: str) -> None:
    assert verdict("mask", rows) == expected


def power_law_rows(time: dict[str, float], memory: dict[str, float]) -> list[Row]:
    """Return rows whose seconds and bytes grow with these powers of the length."""
    rows: list[Row] = [
        {"seed": seed, "what": "length", "tokens": n, "way": way, "seconds": n**power, "peak": n ** memory[way]}
        for seed in SEEDS
        for n in (256, 512, 1024, 2048)
        for way, power in time.items()
    ]
    against = [("projections", 1024.0, 1.0), ("attention", 1.0, 2.0)]
    return rows + [
        {
            "seed": seed,
            "what": "against projections",
            "tokens": n,
            "part": part,
            "seconds": factor * n**power,
            "width": 8,
        }
        for seed in SEEDS
        for n in (256, 512, 2048)
        for part, factor, power in against
    ]


ALL = ("materialised", "fused", "causal", "window")


@pytest.mark.parametrize(
    ("time", "memory", "expected"),
    [
        ((2, 2, 2, 2), (2, 2, 2, 2), "holds"),
        ((2, 2, 2, 1), (2, 1, 1, 1), "holds when"),
        ((1, 1, 1, 1), (1, 1, 1, 1), "does not hold here"),
    ],
)
def test_quadratic(time: tuple[float, ...], memory: tuple[float, ...], expected: str) -> None:
    conclusion = claim_named("quadratic").judge(
        power_law_rows(dict(zip(ALL, time, strict=True)), dict(zip(ALL, memory, strict=True)))
    )
    assert conclusion.verdict == expected
    assert conclusion.figures[0].value == pytest.approx(time[0])
    assert conclusion.figures[-1].value == pytest.approx(1024)


def depth_rows(losses: dict[str, float]) -> list[Row]:
    return [
        {"seed": seed, "what": "end", "depth": depth, "way": way, "loss": loss + 0.001 * seed, "first_over_last": 1.0}
        for seed in SEEDS
        for depth in (2, 32)
        for way, loss in losses.items()
    ]


UNTRAINED = {"neither": 2.0, "residual only": 2.0, "norm only": 2.0}


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ({**UNTRAINED, "post-norm": 0.1, "pre-norm": 0.1}, "holds"),
        ({**UNTRAINED, "post-norm": 2.0, "pre-norm": 0.1}, "holds when"),
        ({**UNTRAINED, "residual only": 0.1, "post-norm": 0.1, "pre-norm": 0.1}, "holds when"),
        ({**UNTRAINED, "post-norm": 2.0, "pre-norm": 2.0}, "does not hold here"),
    ],
)
def test_residual_norm(losses: dict[str, float], expected: str) -> None:
    assert verdict("residual-norm", depth_rows(losses)) == expected


def errata_rows(*wrong: Any) -> list[Row]:
    return [
        {"seed": seed, "item": n, "about": f"item {n}", "document": "a", "is": "b", "wrong": one}
        for seed in SEEDS
        for n, one in enumerate(wrong)
    ]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (errata_rows(True, True, None), "does not hold here"),
        (errata_rows(True, False, None), "holds when"),
        (errata_rows(False, False), "holds"),
    ],
)
def test_errata(rows: list[Row], expected: str) -> None:
    assert verdict("errata", rows) == expected


def scale_rows(gain: float) -> list[Row]:
    """Return rows that agree with the claim for random scores, with this gain in training at the larger width."""
    rows: list[Row] = []
    for seed in SEEDS:
        for d_k in (4, 1024):
            for way in ("divided by √d_k", "not divided"):
                raw = way == "not divided"
                rows.append({"seed": seed, "what": "random", "d_k": d_k, "way": way, "variance": d_k if raw else 1.0,
                             "entropy": 1.0, "gradient": 1e-9 if raw and d_k > 4 else 0.2})  # fmt: skip
                rows.append({"seed": seed, "what": "trained", "d_k": d_k, "way": way,
                             "accuracy": 0.5 + (0 if raw else gain if d_k > 4 else 0.1)})  # fmt: skip
    return rows


@pytest.mark.parametrize(("gain", "expected"), [(0.2, "holds"), (0.0, "holds when")])
def test_scale(gain: float, expected: str) -> None:
    assert verdict("scale", scale_rows(gain)) == expected


def test_scale_does_not_hold_for_another_variance() -> None:
    rows = [{**row, "variance": 1.0} if "variance" in row else row for row in scale_rows(0.2)]
    assert verdict("scale", rows) == "does not hold here"
