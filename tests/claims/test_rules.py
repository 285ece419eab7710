"""Verdicts follow from the numbers: other numbers, another verdict."""

from typing import Any

import pytest

from regard.claims import claim_named
from regard.claims.claim import Row

SEEDS = range(3)


def verdict(name: str, rows: list[Row]) -> str:
    return claim_named(name).judge(rows).verdict


def learned(found: float, frequent: float) -> list[Row]:
    """Accuracy of attention on the two tasks; every fixed mean has 0.4."""
    ways = ("attention", "plain mean", "random weights", "learned by place")
    return [
        {"seed": seed, "task": task, "way": way, "accuracy": (score if way == "attention" else 0.4) + 0.001 * seed}
        for seed in SEEDS
        for task, score in (("find one", found), ("most frequent", frequent))
        for way in ways
    ]


@pytest.mark.parametrize(
    ("found", "frequent", "wanted"),
    [(0.9, 0.9, "holds"), (0.9, 0.4, "holds when"), (0.4, 0.4, "does not hold here"), (0.2, 0.3, "does not hold here")],
)
def test_learned_mean(found: float, frequent: float, wanted: str) -> None:
    assert verdict("learned-mean", learned(found, frequent)) == wanted


def masked(on: float, off_training: float, off_writing: float, leak: float = 0.0) -> list[Row]:
    return [
        row
        for seed in SEEDS
        for row in (
            {"seed": seed, "way": "mask on", "training": on, "generation": on, "leak": leak},
            {"seed": seed, "way": "mask off", "training": off_training, "generation": off_writing, "leak": 1.0},
        )
    ]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (masked(0.99, 0.99, 0.15), "holds"),
        (masked(0.99, 0.99, 0.6), "holds when"),
        (masked(0.99, 0.99, 0.99), "does not hold here"),
        (masked(0.99, 0.99, 0.15, leak=0.5), "does not hold here"),
    ],
)
def test_mask(rows: list[Row], wanted: str) -> None:
    assert verdict("mask", rows) == wanted


def grown(time: dict[str, float], memory: dict[str, float]) -> list[Row]:
    """Seconds and bytes that grow with these powers of the length."""
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
    ("time", "memory", "wanted"),
    [
        ((2, 2, 2, 2), (2, 2, 2, 2), "holds"),
        ((2, 2, 2, 1), (2, 1, 1, 1), "holds when"),
        ((1, 1, 1, 1), (1, 1, 1, 1), "does not hold here"),
    ],
)
def test_quadratic(time: tuple[float, ...], memory: tuple[float, ...], wanted: str) -> None:
    conclusion = claim_named("quadratic").judge(
        grown(dict(zip(ALL, time, strict=True)), dict(zip(ALL, memory, strict=True)))
    )
    assert conclusion.verdict == wanted
    assert conclusion.figures[0].value == pytest.approx(time[0])
    assert conclusion.figures[-1].value == pytest.approx(1024)


def deep(losses: dict[str, float]) -> list[Row]:
    return [
        {"seed": seed, "what": "end", "depth": depth, "way": way, "loss": loss + 0.001 * seed, "first_over_last": 1.0}
        for seed in SEEDS
        for depth in (2, 32)
        for way, loss in losses.items()
    ]


BAD = {"neither": 2.0, "residual only": 2.0, "norm only": 2.0}


@pytest.mark.parametrize(
    ("losses", "wanted"),
    [
        ({**BAD, "post-norm": 0.1, "pre-norm": 0.1}, "holds"),
        ({**BAD, "post-norm": 2.0, "pre-norm": 0.1}, "holds when"),
        ({**BAD, "residual only": 0.1, "post-norm": 0.1, "pre-norm": 0.1}, "holds when"),
        ({**BAD, "post-norm": 2.0, "pre-norm": 2.0}, "does not hold here"),
    ],
)
def test_residual_norm(losses: dict[str, float], wanted: str) -> None:
    assert verdict("residual-norm", deep(losses)) == wanted


def errors(*wrong: Any) -> list[Row]:
    return [
        {"seed": seed, "item": n, "about": f"item {n}", "document": "a", "is": "b", "wrong": one}
        for seed in SEEDS
        for n, one in enumerate(wrong)
    ]


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        (errors(True, True, None), "does not hold here"),
        (errors(True, False, None), "holds when"),
        (errors(False, False), "holds"),
    ],
)
def test_errata(rows: list[Row], wanted: str) -> None:
    assert verdict("errata", rows) == wanted


def trained(gain: float) -> list[Row]:
    """Random rows as the argument has them, and what the division gains in training at the wider of two widths."""
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


@pytest.mark.parametrize(("gain", "wanted"), [(0.2, "holds"), (0.0, "holds when")])
def test_scale(gain: float, wanted: str) -> None:
    assert verdict("scale", trained(gain)) == wanted


def test_scale_of_another_spread_does_not_hold() -> None:
    rows = [{**row, "variance": 1.0} if "variance" in row else row for row in trained(0.2)]
    assert verdict("scale", rows) == "does not hold here"
