"""Tests of the drills: answers agree with the reference, own results are used, mistakes are named."""

import json
import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from regard.attention.reference import numpy_attention as reference
from regard.costs import cost
from regard.languages import LANGUAGES
from regard.learn import DRILL_KINDS, Drill, drill, find_drill
from regard.learn.drills.drill import all_passed
from regard.learn.drills.exact_numbers import Exact, exact, exp, format_number, ln
from regard.learn.drills.matrices import Matrix, close, format_answer, shape
from regard.learn.drills.parse_answer import UnreadableAnswer, read_matrix, read_number

seeds = st.integers(0, 10_000)
kinds = st.sampled_from(sorted(DRILL_KINDS))


def array(matrix: Matrix) -> np.ndarray:
    return np.array([[float(x) for x in row] for row in matrix])


def numbers(task: Drill) -> list[int]:
    return [int(number) for number in re.findall(r"(?<![\w.])\d+", task.statement["en"])]


def test_every_level_and_seed_gives_a_drill() -> None:
    for level in range(1, 6):
        made = [drill(level, seed) for seed in range(12)]
        assert {task.level for task in made} == {level}
        assert len({task.kind for task in made}) > 1
        assert drill(level, 3).statement == made[3].statement
    assert len({drill(1, seed, "softmax").statement["en"] for seed in range(20)}) > 5


@given(kinds, seeds)
def test_texts_are_bilingual_and_numbers_small(kind: str, seed: int) -> None:
    task = drill(1, seed, kind)
    for words in (task.title, task.statement, *(step.instruction for step in task.steps)):
        assert set(words) == set(LANGUAGES)
        assert not re.search("[一-鿿]", words["en"])
    exacts = [x for answer in task.answers().values() for row in answer for x in row if x != -math.inf]
    assert all(isinstance(x, Exact) and x.rational.denominator <= 30 for x in exacts)


@given(st.sampled_from(["one-query", "hidden-key", "causal", "cross", "causal-padded"]), seeds)
def test_attention_drills_agree_with_the_reference(kind: str, seed: int) -> None:
    task = drill(1, seed, kind)
    q, k, v = (array(task.inputs[name]) for name in "QKV")
    mask = array(task.inputs["M"]) == 1 if "M" in task.inputs else None
    scale = 1.0 if kind == "one-query" else None
    output, weights = reference.attention(q, k, v, mask, scale=scale, weights=True)
    np.testing.assert_allclose(array(task.answers()["weights"]), weights, atol=1e-12)
    np.testing.assert_allclose(array(task.answers()["output"]), output, atol=1e-12)


@given(st.sampled_from(["softmax", "scaling", "weighted-sum", "scores"]), seeds)
def test_single_steps_agree_with_the_reference(kind: str, seed: int) -> None:
    task = drill(1, seed, kind)
    given, answers = {name: array(value) for name, value in task.inputs.items()}, task.answers()
    if kind == "softmax":
        np.testing.assert_allclose(array(answers["weights"]), reference.softmax(given["s"]), atol=1e-12)
    elif kind == "scaling":
        d_k = numbers(task)[0]
        weights = reference.softmax(given["scores"] / math.sqrt(d_k))
        np.testing.assert_allclose(array(answers["weights"]), weights, atol=1e-12)
    elif kind == "weighted-sum":
        np.testing.assert_allclose(array(answers["output"]), given["weights"] @ given["V"], atol=1e-12)
    else:
        unscaled = reference.scores(given["Q"], given["K"], scale=1.0)
        np.testing.assert_allclose(array(answers["scores"]), unscaled, atol=1e-12)


@given(seeds)
def test_self_attention_and_head_drills_agree_with_the_reference(seed: int) -> None:
    task = drill(1, seed, "self-attention")
    x, *weights = (array(task.inputs[name]) for name in ("X", "W_q", "W_k", "W_v"))
    expected = reference.attention(*reference.project(x, *weights))
    np.testing.assert_allclose(array(task.answers()["output"]), expected, atol=1e-12)
    for kind, kv_heads in (("two-heads", 2), ("shared-keys", 1)):
        task = drill(1, seed, kind)
        q, k, v, w_o = (array(task.inputs[name]) for name in ("Q", "K", "V", "W_o"))
        context, weights = reference.attention(*reference.split_projected(q, k, v, 2, kv_heads), weights=True)
        for head in range(2):
            np.testing.assert_allclose(array(task.answers()[f"weights {head}"]), weights[head], atol=1e-12)
        np.testing.assert_allclose(array(task.answers()["output"]), reference.merge_heads(context) @ w_o, atol=1e-12)


@given(seeds)
def test_online_softmax_and_layer_norm_agree_with_the_reference(seed: int) -> None:
    task = drill(1, seed, "online")
    s = np.concatenate([array(task.inputs["s1"]), array(task.inputs["s2"])], -1)
    v = np.concatenate([array(task.inputs["V1"]), array(task.inputs["V2"])])
    np.testing.assert_allclose(array(task.answers()["output"]), reference.softmax(s) @ v, atol=1e-12)
    m, total = (float(task.answers()[name][0][0]) for name in ("m2", "l2"))
    assert m + math.log(total) == pytest.approx(float(reference.log_sum_exp(s)[0]))
    task = drill(1, seed, "layer-norm")
    x = torch.from_numpy(array(task.inputs["x"]) + array(task.inputs["f"]))
    expected = nn.functional.layer_norm(x, (4,), eps=0).numpy()
    np.testing.assert_allclose(array(task.answers()["normalised"]), expected, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_counts_agree_with_real_layers(seed: int) -> None:
    task = drill(1, seed, "parameters")
    width, heads, wide = numbers(task)
    layer = nn.TransformerEncoderLayer(width, heads, wide, device="meta")
    counted = {name: array(value)[0, 0] for name, value in task.answers().items()}
    assert counted["layer"] == sum(p.numel() for p in layer.parameters())
    assert counted["attention"] == sum(p.numel() for p in layer.self_attn.parameters())

    task = drill(1, seed, "cost")
    seq, width, heads, *_ = numbers(task)
    counted = {name: array(value)[0, 0] for name, value in task.answers().items()}
    batch = int(re.search(r"batch of (\d+)", task.steps[-1].instruction["en"]).group(1))  # type: ignore[union-attr]
    [estimate] = cost(d_model=width, heads=heads, seq=seq, bias=False, materialised=True).estimates
    work = {part: count.forward for part, count in estimate.operations.items()}
    assert counted["projections"] == sum(work[f"{name} projection"] for name in ("q", "k", "v", "out"))
    assert counted["both"] == work["scores"] + work["weighted sum"]
    assert counted["matrix"] == torch.zeros(batch, heads, seq, seq).nbytes

    task = drill(1, seed, "cache")
    layers, heads, kv_heads, width, *_ = numbers(task)
    tokens = int(re.search(r"for (\d+) tokens", task.steps[1].instruction["en"]).group(1))  # type: ignore[union-attr]
    kept = torch.empty(layers, 2, kv_heads, tokens, width, dtype=torch.bfloat16, device="meta")
    assert array(task.answers()["cache"])[0, 0] == kept.nbytes
    assert array(task.answers()["ratio"])[0, 0] == heads / kv_heads


@pytest.mark.parametrize("seed", range(4))
def test_shapes_agree_with_real_tensors(seed: int) -> None:
    task = drill(1, seed, "shapes")
    batch, length, size, width, heads, *_ = numbers(task)
    x, context = torch.zeros(batch, length, width), torch.zeros(batch, size, width)
    q, k = (t.view(batch, -1, heads, width // heads).transpose(1, 2) for t in (x, context))
    scores = q @ k.mT
    mixed = scores @ k
    real = {"Q": x, "Q split": q, "K split": k, "scores": scores, "context": mixed}
    real["merged"] = mixed.transpose(1, 2).reshape(batch, length, width)
    assert {name: list(t.shape) for name, t in real.items()} == {
        name: [int(float(n)) for n in row] for name, [row] in task.answers().items()
    }


@given(kinds, seeds)
def test_correct_answers_pass_exact_or_rounded(kind: str, seed: int) -> None:
    task = drill(1, seed, kind)
    answers = task.answers()
    results = task.check({name: format_answer(value) for name, value in answers.items()})
    assert {result.outcome for result in results} == {"right"}
    assert all_passed(results)
    rounded = {
        name: [[str(round(float(x), 2)) if float(x) % 1 else format_number(x) for x in row] for row in value]
        for name, value in answers.items()
    }
    assert all_passed(task.check(rounded))


@given(kinds, seeds, st.data())
def test_one_wrong_step_counts_once(kind: str, seed: int, data: st.DataObject) -> None:
    task = drill(1, seed, kind)
    slip = data.draw(st.integers(0, len(task.steps) - 1))
    own, answers = dict(task.inputs), {}
    for place, step in enumerate(task.steps):
        value = step.compute(own)
        if place == slip:
            rows, columns = shape(value)
            i, j = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns - 1))
            value = [list(row) for row in value]
            value[i][j] = exact(5) if value[i][j] == -math.inf else value[i][j] + exact(1)
        answers[step.name] = format_answer(value)
        own[step.name] = read_matrix(answers[step.name], *shape(value))
    results = task.check(answers)
    assert [result.passed for result in results] == [place != slip for place in range(len(task.steps))]
    assert results[slip].outcome == "wrong"
    assert results[slip].cells == ((i, j),) or results[slip].mistake


@given(kinds, seeds)
def test_every_common_mistake_is_named(kind: str, seed: int) -> None:
    task = drill(1, seed, kind)
    values = {**task.inputs, **task.answers()}
    named = 0
    for place, step in enumerate(task.steps):
        for mistake in step.mistakes:
            try:
                wrong = mistake.compute(values)
            except (ValueError, ArithmeticError):
                continue
            if shape(wrong) != shape(values[step.name]) or any(math.isnan(float(x)) for row in wrong for x in row):
                continue
            answers = {step.name: format_answer(values[step.name]) for step in task.steps[:place]}
            result = task.check({**answers, step.name: [[_precisely(x) for x in row] for row in wrong]})[place]
            assert (result.outcome, result.mistake) == ("wrong", mistake.name)
            assert all(result.message[language] == mistake.message[language] for language in LANGUAGES)
            named += 1
    assert named


def _precisely(x: Exact | float) -> str:
    return format_number(x) if isinstance(x, Exact) or math.isinf(x) else f"{x:.12f}"


def test_later_steps_are_graded_with_own_results() -> None:
    task = drill(1, 0, "hidden-key")
    own = dict(task.inputs)
    own["scores"] = task.steps[0].compute(own)
    own["scaled"] = own["scores"]  # forgot to scale, and goes on rightly
    for step in task.steps[2:]:
        own[step.name] = step.compute(own)
    results = task.check([format_answer(own[step.name]) for step in task.steps])
    assert [result.outcome for result in results][:3] == ["right", "wrong", "carried"]
    assert results[1].mistake == "not-scaled"
    assert "The scaling is missing" in results[1].message["en"]
    assert sum(not result.passed for result in results) == 1


def softmax_over_three() -> Drill:
    made = (drill(1, seed, "softmax") for seed in range(100))
    return next(task for task in made if shape(task.inputs["s"]) == (1, 3))


def test_blank_and_unreadable_answers_do_not_affect_later_steps() -> None:
    task = softmax_over_three()
    right = {name: format_answer(value) for name, value in task.answers().items()}
    results = task.check({"exponentials": "two, three, four", "weights": right["weights"]})
    assert [result.outcome for result in results] == ["unread", "blank", "right"]
    assert "cannot read 'two'" in results[0].message["en"]
    assert "读不懂" in results[0].message["zh"]
    results = task.check(["1, 2"])
    assert "3 numbers expected, got 2" in results[0].message["en"]
    with pytest.raises(ValueError, match="the steps are exponentials, sums, weights, got 'weight'"):
        task.check({"weight": "1"})
    with pytest.raises(ValueError, match="3 steps, got 4 answers"):
        task.check(["1"] * 4)
    with pytest.raises(TypeError, match="a list or a mapping by step, got the text '1, 2'"):
        task.check("1, 2")


@pytest.mark.parametrize("answer", [3, 0, 2.5, None, [], [[]], [None], [["", "1", "2"]], {"a": 1}, [[1, 2], [3]], True])
def test_any_answer_from_the_page_gets_a_result(answer: object) -> None:
    results = softmax_over_three().check({"sums": answer, "weights": answer})
    assert results[0].outcome == "blank"
    assert {result.outcome for result in results} <= {"blank", "unread", "wrong", "right"}


def test_own_results_without_a_value_do_not_raise() -> None:
    task = softmax_over_three()
    results = task.check(["0, 0, 0", "0", "1, 0, 0"])  # a sum of 0 to divide by
    assert [result.passed for result in results][:2] == [False, True]
    task = drill(1, 0, "scaling")
    assert not all_passed(task.check(["100000, 0, 0", "1, 1, 1", "3", "1/3, 1/3, 1/3"]))  # e^100000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2/3", Fraction(2, 3)),
        (" 3 ", 3),
        ("−1", -1),
        ("1/3 + 1/6", Fraction(1, 2)),
        ("2^10", 1024),
        ("50%", Fraction(1, 2)),
        ("(1+2)/4", Fraction(3, 4)),
        ("-(2)", -2),
        ("2·3", 6),
        ("e^ln 2", 2),
        ("exp(ln 6)", 6),
    ],
)
def test_typed_numbers_are_parsed(text: str, value: int | Fraction) -> None:
    assert read_number(text) == exact(value)


@pytest.mark.parametrize(
    "text", ["ln 4", "ln4", "ln(4)", "2 ln 2", "2ln2", "2*ln 2", "ln 2 + ln 2", "4 (ln 2)/2", "LN 4"]
)
def test_typed_logarithms_are_parsed(text: str) -> None:
    assert read_number(text) == ln(4)


def test_rounded_and_infinite_numbers_are_parsed() -> None:
    assert read_number("0.67") == 0.67
    assert read_number("ln(2.0)") == pytest.approx(math.log(2))
    assert [read_number(text) for text in ("-inf", "−∞", "-Infinity")] == [-math.inf] * 3
    assert read_number("e^1") == pytest.approx(math.e)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "1/0",
        "ln 3/2",
        "ln 0",
        "ln(-1)",
        "(1",
        "1)",
        "1 2",
        "/2",
        "9" * 200,
        "9^9^9",
        "inf-inf",
        "0.0^-1",
        "0^-1",
        "9^64*9^64*9^64*9^64*9^64*9^64",
        "e^(9^9)",
    ],
)
def test_invalid_numbers_are_rejected(text: str) -> None:
    with pytest.raises(UnreadableAnswer):
        read_number(text)


def test_an_ambiguous_logarithm_names_both_spellings() -> None:
    with pytest.raises(UnreadableAnswer, match=r"two ways; write ln\(3/2\) or \(ln 3\)/2"):
        read_number("ln 3/2")


@pytest.mark.parametrize(
    "text", ["1,2;3,4", "1, 2; 3, 4;", "[1,2;3,4]", "1 2; 3 4", "1,2\n3,4", "１，2；3，4".replace("１", "1")]
)
def test_typed_matrices_are_parsed(text: str) -> None:
    assert close(read_matrix(text, 2, 2), read_matrix([[1, 2], [3, 4]], 2, 2))


def test_thousands_commas_and_shape_brackets_are_accepted() -> None:
    assert read_matrix("2,097,152", 1, 1) == [[exact(2_097_152)]]
    assert read_matrix("(2, 8, 5, 64)", 1, 4) == read_matrix("2, 8, 5, 64", 1, 4)
    assert read_matrix("1; 2", 2, 1) == read_matrix(["1", "2"], 2, 1)


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_rejected(text: str) -> None:
    try:
        number = read_number(text)
    except UnreadableAnswer as error:
        said = error.message
    else:
        said = {"en": format_number(number), "zh": format_number(number)}
    assert set(said) == set(LANGUAGES)
    assert "nan" not in said["en"].partition("'")[0]


fractions = st.fractions(-6, 6, max_denominator=12)
exacts = st.builds(
    lambda r, a, b: exact(r) + exact(a) * ln(2) + exact(b) * ln(Fraction(3, 5)), fractions, fractions, fractions
)


@given(exacts, exacts, fractions.filter(bool))
def test_exact_arithmetic_agrees_with_floats(a: Exact, b: Exact, factor: Fraction) -> None:
    assert float(a + b) == pytest.approx(float(a) + float(b), abs=1e-9)
    assert float(a - b) == pytest.approx(float(a) - float(b), abs=1e-9)
    assert float(a * b) == pytest.approx(float(a) * float(b), abs=1e-9)
    assert float(a / exact(factor)) == pytest.approx(float(a) / factor, abs=1e-9)
    assert float(exp(a * exact(Fraction(1, 12)))) == pytest.approx(math.exp(float(a) / 12))
    assert read_number(format_number(a)) == a


@given(kinds, seeds)
def test_a_drill_is_found_again_by_its_name(kind: str, seed: int) -> None:
    task = drill(1, seed, kind)
    plain = json.loads(json.dumps(task.to_plain()))
    again = find_drill(plain["name"])
    assert again.statement == plain["statement"] == task.statement
    assert [(step["rows"], step["columns"]) for step in plain["steps"]] == [shape(a) for a in task.answers().values()]
    for name, value in plain["given"].items():
        assert read_matrix(value, *shape(task.inputs[name])) == task.inputs[name]
    results = json.loads(json.dumps([result.to_plain() for result in again.check({})]))
    assert [result["outcome"] for result in results] == ["blank"] * len(plain["steps"])
    assert [result["true"] for result in results] == [
        [[format_number(x) for x in r] for r in a] for a in task.answers().values()
    ]


def test_unknown_levels_and_kinds_raise() -> None:
    with pytest.raises(ValueError, match="levels are 1 to 5, got 6"):
        drill(6, 0)
    with pytest.raises(ValueError, match=r"the kinds of drills are softmax, .*, got 'soft'"):
        drill(1, 0, "soft")
    for name in ("softmax", "softmax:2:0", "softmax:1:x", "soft:1:0", ""):
        with pytest.raises(ValueError, match="named KIND:LEVEL:SEED"):
            find_drill(name)
