"""The rule of every claim produces every verdict from made-up rows."""

from collections.abc import Callable
from itertools import product
from typing import Any, Literal

import pytest

from regard.claims import NAMES, claim_named
from regard.claims.claim import Row
from regard.claims.experiments import (
    connectx_attention,
    learned_mean,
    multi_head_subspaces,
    not_only_nlp,
    positions,
    residual_norm,
    softmax,
)
from regard.claims.experiments.computed import errata, memory_at_length, quadratic, stable_softmax

Kind = Literal["holds", "holds when", "does not hold here", "undecided"]
KINDS: tuple[Kind, ...] = ("holds", "holds when", "does not hold here", "undecided")
SEEDS = range(10)


def noise(seed: int, size: float) -> float:
    """Return a number between −size and size that differs from seed to seed."""
    return size * ((7 * seed) % 10 - 4.5) / 4.5


def effect(kind: Kind, number: int, seed: int, yes: float, no: float) -> float:
    """Return an effect that makes statement `number` true or false, or varies so much that it stays undecided.

    For "holds when" the first statement is true and the others are not.
    """
    if kind == "undecided":
        return (yes + no) / 2 + noise(seed, 3 * abs(yes - no))
    wanted = yes if kind == "holds" or (kind == "holds when" and number == 0) else no
    return wanted + noise(seed, 0.01 * abs(yes - no))


def fact(kind: Kind, number: int, seed: int) -> bool:
    if kind == "undecided":
        return seed % 2 == 0
    return kind == "holds" or (kind == "holds when" and number == 0)


def linear_last_dim(kind: Kind) -> list[Row]:
    whole = {"does not hold here": False}.get(kind, True)
    return [
        {"seed": seed, "shape": "a", "way": way, "same_bits": fact(kind, number, seed), "error": 1e-7, "ratio": 1.0,
         "same_on_whole_numbers": whole}
        for seed in SEEDS for number, way in enumerate(("reshape", "loop over tokens"))
    ]  # fmt: skip


def linear_as_loop(kind: Kind) -> list[Row]:
    return [
        {"seed": seed, "rank": rank, "same_on_whole_numbers": fact(kind, rank - 1, seed), "error": 1e-7,
         "gradient_error": 1e-7 if fact(kind, rank - 1, seed) else 1.0}
        for seed in SEEDS for rank in (1, 2)
    ]  # fmt: skip


def scale(kind: Kind, scaled: float = 0.95) -> list[Row]:
    rows: list[Row] = []
    for seed, (number, d_k), raw in product(SEEDS, enumerate((4, 1024)), (True, False)):
        way = "not divided" if raw else "divided by √d_k"
        grows = 1.0 if kind == "does not hold here" else d_k
        gradient = 1e-9 if raw and d_k > 4 else 0.2
        gain = effect(kind, number, seed, 0.2, 0.0) if raw else 0.0
        rows.append({"seed": seed, "what": "random", "d_k": d_k, "way": way, "variance": grows if raw else 1.0,
                     "entropy": 1.0, "gradient": gradient})  # fmt: skip
        rows.append({"seed": seed, "what": "trained", "d_k": d_k, "way": way, "accuracy": scaled - gain})
    return rows


def temperature(kind: Kind) -> list[Row]:
    rows: list[Row] = []
    for seed, (number, at) in product(SEEDS, enumerate((0.1, 1, 10))):
        entropy = {"holds": number, "holds when": number, "does not hold here": 0}.get(kind, noise(3 * seed, number))
        flat = kind == "holds" and at != 1
        gradient = 10 ** noise(seed + number, 2) if kind == "undecided" else 0.001 if flat else 0.2
        rows.append({"seed": seed, "temperature": at, "entropy": entropy + noise(seed, 1e-3), "gradient": gradient,
                     "largest": 0.5})  # fmt: skip
    return rows


def softmax_rows(kind: Kind, reference: float = 0.99) -> list[Row]:
    missing = kind == "does not hold here"
    rows: list[Row] = []
    for seed in SEEDS:
        rows.append({"seed": seed, "what": "properties", "way": "softmax", "sum_error": float(missing), "slope": 1.0,
                     "sharpening": 0.4, "slope_error": 0.0})  # fmt: skip
        for number, way in enumerate(softmax.WAYS, -1):
            loss = 0.0 if way == "softmax" else effect(kind, number, seed, 0.3, 0.0)
            rows.append({"seed": seed, "what": "trained", "way": way, "step": 1, "accuracy": reference - loss})
    return rows


def stable_softmax_rows(kind: Kind) -> list[Row]:
    stable = 0.5 if kind == "does not hold here" else 0.0
    rows: list[Row] = []
    for seed in SEEDS:
        rows += [{"seed": seed, "what": "overflow", "dtype": dtype, "largest": 10.0, "naive_nan": 0.5, "stable_nan": 0}
                 for dtype in stable_softmax.DTYPES]  # fmt: skip
        rows.append({"seed": seed, "what": "example", "d_model": 8, "naive_nan": float(fact(kind, 1, seed)),
                     "stable_nan": stable, "apart": 0.0})  # fmt: skip
    return rows


def learned_mean_rows(kind: Kind, reference: float = 0.97) -> list[Row]:
    rows: list[Row] = []
    for seed, (number, task) in product(SEEDS, enumerate(learned_mean.TASKS)):
        for way in learned_mean.WAYS:
            gain = 0.0 if way == "attention" else effect(kind, number, seed, 0.1, 0.0)
            rows.append({"seed": seed, "task": task, "way": way, "accuracy": min(reference - gain, 1)})
    return rows


def not_only_nlp_rows(kind: Kind, reference: float = 0.95) -> list[Row]:
    rows: list[Row] = []
    for seed, (number, (name, domain)) in product(SEEDS, enumerate(not_only_nlp.DOMAINS.items())):
        for model in not_only_nlp.MODELS:
            attention = effect(kind, number, seed, 0.95, 1 / domain.classes)
            accuracy = min(max(attention, 0), 1) if model == "attention" else reference
            rows.append({"seed": seed, "domain": name, "model": model, "accuracy": accuracy})
    return rows


def heads_not_speed_rows(kind: Kind, reference: float = 0.99) -> list[Row]:
    rows: list[Row] = []
    for seed, heads in product(SEEDS, (1, 4, 8)):
        worse = effect(kind if kind != "holds when" else "holds", 0, seed, 0.3, 0.0) if heads == 1 else 0.0
        fast = 0.5 if kind == "holds when" else 1.5
        rows.append({"seed": seed, "what": "trained", "heads": heads, "accuracy": reference - worse,
                     "apart": None if heads == 1 else 0.9, "apart_before": None if heads == 1 else 0.4})  # fmt: skip
        rows.append({"seed": seed, "what": "timed", "heads": heads, "parameters": 10,
                     "ratio": 1.0 if heads == 1 else fast + noise(seed, 0.01)})  # fmt: skip
    return rows


def quadratic_rows(kind: Kind) -> list[Row]:
    rows: list[Row] = []
    for seed, tokens in product(SEEDS, (256, 512, 1024, 2048)):
        for number, way in enumerate(quadratic.WAYS):
            grown = tokens ** effect(kind, number, seed, 2.0, 1.0)
            rows.append({"seed": seed, "what": "length", "tokens": tokens, "way": way, "seconds": grown, "peak": grown,
                         "operations": grown})  # fmt: skip
        for part, factor, power in (("projections", 1024.0, 1), ("attention", 1.0, 2)):
            rows.append({"seed": seed, "what": "against projections", "tokens": tokens, "part": part, "width": 8,
                         "seconds": factor * tokens**power})  # fmt: skip
    return rows


def memory_rows(kind: Kind) -> list[Row]:
    names = (memory_at_length.QKV, memory_at_length.MATRIX, memory_at_length.INTERMEDIATES, memory_at_length.ALL)
    return [
        {"seed": seed, "tokens": 512, "part": part, "predicted": 1.0, "measured": ratio, "ratio": ratio}
        for seed, (number, part) in product(SEEDS, enumerate(names))
        for ratio in [4 ** effect(kind, number, seed, 0.0, 1.0)]
    ]


def rnn_rows(kind: Kind, reference: float = 0.99) -> list[Row]:
    rows: list[Row] = []
    for seed, (at, model) in product(SEEDS, enumerate(("Transformer", "LSTM"))):
        own: Row = {"seed": seed, "model": model}
        for length in (8, 64):
            power = effect(kind, 0, seed, at, 1 - at)
            rows.append({**own, "row": "sequential steps", "length": length, "steps": length**power})
            rate = effect(kind, 1, seed, 2.0, 0.9) if model == "Transformer" else 1.0
            rows.append({**own, "row": "parallel computation", "when": "training", "threads": 1, "length": length,
                         "rate": max(rate, 0.01)})  # fmt: skip
        accuracy = reference - (effect(kind, 1, seed, 0.5, 0.0) if model == "LSTM" else 0.0)
        end = {"end": True, "step": 1, "seconds": 1.0, "accuracy": accuracy}
        rows.append({**own, **end, "row": "long distance", "distance": 8})
        rows += [{**own, **end, "row": "expressiveness", "task": task} for task in ("recall", "delay")]
        for amount, better in ((10, "LSTM"), (100, "Transformer")):
            loss = 0.0 if model == better else effect(kind, 1, seed, 0.3, 0.0)
            seconds = 1.0 if model == "Transformer" else max(effect(kind, 1, seed, 2.0, 0.9), 0.01)
            rows.append({**own, "row": "data", "amount": amount, "held_out": loss, "goal": 9.0, "seconds": seconds})
    return rows


def positions_rows(kind: Kind, reference: float = 0.99) -> list[Row]:
    rows: list[Row] = []
    for seed, task, (number, name) in product(SEEDS, positions.TASKS, enumerate((*positions.KINDS, positions.CAUSAL))):
        accuracy = reference
        if kind == "does not hold here":
            accuracy = 1.0 if name == positions.CAUSAL else 0.92
        elif name == "none":
            accuracy = 0.3
        elif name == positions.CAUSAL:
            accuracy = 0.3 if kind == "holds" else 0.99
        elif name != "learned" and kind == "holds when":
            accuracy = effect(kind, number, seed, reference, 0.3)
        rows.append({"seed": seed, "task": task, "positions": name, "length": 8, "trained_at": 8, "accuracy": accuracy})
    if kind == "undecided":
        rows = [{**row, "accuracy": 0.3 + noise(seed, 0.6)} if row["positions"] == positions.CAUSAL else row
                for row in rows for seed in [row["seed"]]]  # fmt: skip
    return rows


def residual_norm_rows(kind: Kind, shallow: float = 0.1) -> list[Row]:
    rows: list[Row] = []
    for seed, depth, way in product(SEEDS, (2, 32), residual_norm.WAYS):
        both = way in (*residual_norm.BOTH, residual_norm.WARM_UP)
        good, bad = (0.1, 2.0) if both else (2.0, 0.1)
        number = 0 if way == "pre-norm" else 1
        loss = shallow if depth == 2 else max(effect(kind, number, seed, good, bad), 1e-3)
        rows.append({"seed": seed, "what": "end", "depth": depth, "way": way, "loss": loss, "first_over_last": 1.0})
    return rows


def mask_rows(kind: Kind, reference: float = 0.99) -> list[Row]:
    off = {"holds": 0.15, "holds when": 0.7, "does not hold here": reference}
    return [
        row
        for seed in SEEDS
        for row in (
            {"seed": seed, "way": "mask on", "training": reference, "generation": reference, "leak": 0.0},
            {"seed": seed, "way": "mask off", "training": 0.99, "leak": 1.0,
             "generation": off[kind] if kind != "undecided" else 0.5 + noise(seed, 0.5)},
        )
    ]  # fmt: skip


def dropout_rows(kind: Kind) -> list[Row]:
    return [
        {"seed": seed, "rate": 0.5, "row_deviation": effect(kind, 0, seed, 0.0, 0.5),
         "bias": effect(kind, 1, seed, 0.0, 0.5), "removed": 0.5 + effect(kind, 1, seed, 0.001, 0.2),
         "evaluation_unchanged": fact(kind, 1, seed)}
        for seed in SEEDS
    ]  # fmt: skip


def connectx_rows(kind: Kind, reference: float = 0.95) -> list[Row]:
    rows: list[Row] = []
    for seed in SEEDS:
        worse = effect(kind, 0, seed, 0.1, 0.0)
        for board, variant in product(connectx_attention.SHAPES, connectx_attention.VARIANTS):
            loses = variant.startswith("no attention") or variant == "1 head"
            own: Row = {"seed": seed, "what": "trained", "board": board, "variant": variant}
            rows.append({**own, "line": "all", "accuracy": reference - worse * loses})
            for line in ("row", "none"):
                lost = effect(kind, 1, seed, 0.2, 0.0) if loses and line == "row" else 0.0
                rows.append({**own, "line": line, "length": 4, "accuracy": 0.9 - lost, "positions": 5})
        for head, direction in product(range(6), connectx_attention.DIRECTIONS):
            special = direction == "row" and head < 6 * min(max(effect(kind, 1, seed, 1.0, 0.0), 0.0), 1.0) - 0.5
            rows.append({"seed": seed, "what": "lines", "net": "trained", "head": head, "direction": direction,
                         "p": 0.0 if special else 1.0, "ratio": 2.0})  # fmt: skip
            rows.append({"seed": seed, "what": "ablation", "head": str(head), "direction": direction,
                         "loss": float(special)})  # fmt: skip
        ratio = 3 ** effect(kind, 1, seed, 0.0, 1.0)
        for variant, cost in ((connectx_attention.MAIN, ratio), (connectx_attention.WITHOUT, 1.0)):
            rows.append({"seed": seed, "what": "cost", "variant": variant, "seconds": cost, "peak": cost})
    return rows


def errata_rows(kind: Kind) -> list[Row]:
    return [
        {"seed": seed, "item": number, "about": f"item {number}", "document": "a", "is": "b",
         "wrong": not fact(kind, number, seed)}
        for seed in SEEDS for number in range(3)
    ]  # fmt: skip


def multi_head_rows(kind: Kind, translated: float = 0.95) -> list[Row]:
    rows: list[Row] = []
    for seed, net in product(SEEDS, ("trained", "untrained")):
        trained = net == "trained"
        gain = 0.3 if kind == "holds when" else effect(kind, 0, seed, 0.3, 0.0)
        rows.append({
            "seed": seed, "net": net, "what": "summary", "translated": translated, "gain": gain, "best": 3,
            "distance": effect(kind, 1, seed, 0.5, 0.0) if trained else 0.0, "overlap": 0.25,
        })  # fmt: skip
        for relation in multi_head_subspaces.RELATIONS:
            rows.append(
                {"seed": seed, "net": net, "what": "weight", "head": "a/0", "relation": relation, "weight": 0.5}
            )
            if trained:
                rows.append({"seed": seed, "net": net, "what": "ablation", "relation": relation,
                             "extra": effect(kind, 2, seed, 0.3, 0.0)})  # fmt: skip
    return rows


RULES: dict[str, Callable[[Kind], list[Row]]] = {
    "linear-last-dim": linear_last_dim,
    "linear-as-loop": linear_as_loop,
    "scale": scale,
    "temperature": temperature,
    "softmax": softmax_rows,
    "stable-softmax": stable_softmax_rows,
    "learned-mean": learned_mean_rows,
    "not-only-nlp": not_only_nlp_rows,
    "heads-not-speed": heads_not_speed_rows,
    "multi-head-subspaces": multi_head_rows,
    "quadratic": quadratic_rows,
    "memory-at-length": memory_rows,
    "rnn-vs-transformer": rnn_rows,
    "positions": positions_rows,
    "residual-norm": residual_norm_rows,
    "mask": mask_rows,
    "dropout-in-weights": dropout_rows,
    "connectx-attention": connectx_rows,
    "errata": errata_rows,
}
UNLEARNT: dict[str, Callable[[], list[Row]]] = {
    "scale": lambda: scale("holds", 0.5),
    "softmax": lambda: softmax_rows("holds", 0.5),
    "learned-mean": lambda: learned_mean_rows("holds", 0.5),
    "not-only-nlp": lambda: not_only_nlp_rows("holds", 0.5),
    "heads-not-speed": lambda: heads_not_speed_rows("holds", 0.5),
    "multi-head-subspaces": lambda: multi_head_rows("holds", 0.5),
    "rnn-vs-transformer": lambda: rnn_rows("holds", 0.5),
    "positions": lambda: positions_rows("holds", 0.5),
    "residual-norm": lambda: residual_norm_rows("holds", 2.0),
    "mask": lambda: mask_rows("holds", 0.5),
    "connectx-attention": lambda: connectx_rows("holds", 0.5),
}


def test_every_claim_has_rows() -> None:
    assert set(RULES) == set(NAMES)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", RULES)
def test_every_rule_produces_every_verdict(name: str, kind: Kind) -> None:
    conclusion = claim_named(name).judge(RULES[name](kind))
    answers: dict[str, Any] = {one.name["en"]: (one.answer, str(one.effect), one.seeds) for one in conclusion.findings}
    assert (conclusion.verdict, conclusion.reason) == (kind, ""), answers
    for one in conclusion.findings:
        if one.effect is None or one.threshold is None:
            continue
        assert one.effect.low is not None
        assert one.effect.high is not None
        above, below = one.effect.low > one.threshold, one.effect.high < one.threshold
        assert (one.answer != "undecided") == (above or below), answers  # the interval supports the answer
        if one.answer != "undecided":
            assert (one.answer == "yes") == (above != one.below), answers
        elif one.seeds is not None:
            assert one.seeds > len(SEEDS)


@pytest.mark.parametrize("name", UNLEARNT)
def test_without_a_reference_that_has_learnt_nothing_is_decided(name: str) -> None:
    conclusion = claim_named(name).judge(UNLEARNT[name]())
    assert (conclusion.verdict, conclusion.reason) == ("undecided", "not learnt")
    assert "未学会" in conclusion.verdict_in_words["zh"]


def test_crossing_of_quadratic_is_where_the_parts_cost_the_same() -> None:
    assert claim_named("quadratic").judge(quadratic_rows("holds")).figures[-1].value == pytest.approx(1024)


def test_errata_lists_every_item() -> None:
    assert len(claim_named("errata").judge(errata_rows("holds when")).notes) == 3
    assert errata.ITEMS
