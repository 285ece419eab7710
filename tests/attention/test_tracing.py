"""Traces: their steps, numbers, JSON and text."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from rich.console import Console

import regard
from regard.attention import Trace, embed, explain_cell, print_trace, projections, tokenize, trace_layer
from regard.attention.reference import numpy_attention as reference
from support.strategies import Problem, problems

rng = np.random.default_rng(0)

LAYER = ["project", "split", "scores", "scale", "mask", "maximum"]
LAYER += ["exponentials", "sum", "weights", "context", "merge", "output"]
WORDS = ["The", "cat", "sat", "on", "the", "mat"]
CAUSAL = np.tri(6, dtype=bool)


def cat(**options: object) -> Trace:
    return trace_layer(embed(WORDS, 8), *projections(8), heads=2, tokens=WORDS, **options)


class TestNumbers:
    @given(problems())
    def test_a_trace_agrees_with_the_reference(self, problem: Problem) -> None:
        q, k, v, mask, scale = problem.query, problem.keys, problem.values, problem.mask, problem.scale
        trace = regard.trace(q, k, v, mask, scale=scale)
        output, weights = reference.attention(q, k, v, mask, scale=scale, weights=True)
        np.testing.assert_array_equal(trace.weights, weights)
        np.testing.assert_allclose(trace.output, output, atol=1e-12)
        assert [step.name for step in trace.steps] == LAYER[2:-2]
        for step in trace.steps:
            assert len(step.parts[0].letters) == step.values.ndim == len(step.axes)

    @pytest.mark.parametrize("kv_heads", [1, 2, 4])
    def test_a_layer_agrees_with_the_reference(self, kv_heads: int) -> None:
        x, c = rng.normal(size=(2, 5, 8)), rng.normal(size=(2, 7, 6))
        w_q, w_o = rng.normal(size=(8, 8)), rng.normal(size=(8, 3))
        w_k, w_v = rng.normal(size=(2, 6, 2 * kv_heads))
        biases = {"b_q": w_q[0], "b_k": w_k[0], "b_v": w_v[0], "b_o": w_o[0]}
        given = dict(context=c, mask=rng.random((5, 7)) < 0.5, kv_heads=kv_heads, **biases)
        trace = trace_layer(x, w_q, w_k, w_v, w_o, 4, **given)
        output, weights = reference.multi_head_attention(x, w_q, w_k, w_v, w_o, 4, **given, weights=True)
        np.testing.assert_allclose(trace.output, output, atol=1e-12)
        np.testing.assert_allclose(trace.weights, weights, atol=1e-12)
        assert [step.name for step in trace.steps] == LAYER
        assert trace["split"].parts[1].letters == ("B", "H" if kv_heads == 4 else "H_kv", "S", "d_k")

    def test_each_step_follows_from_the_one_before(self) -> None:
        t = cat(mask=CAUSAL)
        q, k, v = t["split"].values
        np.testing.assert_array_equal(t["scores"].values, q @ k.swapaxes(-1, -2))
        np.testing.assert_array_equal(t["scale"].values, t["scores"].values / 2)
        np.testing.assert_array_equal(t["mask"].values, np.where(CAUSAL, t["scale"].values, -np.inf))
        np.testing.assert_array_equal(t["maximum"].values, t["mask"].values.max(-1))
        np.testing.assert_array_equal(t["exponentials"].values.max(-1), 1)
        np.testing.assert_array_equal(t["sum"].values, t["exponentials"].values.sum(-1))
        np.testing.assert_allclose(t["weights"].values.sum(-1), 1)
        np.testing.assert_array_equal(t["context"].values, t["weights"].values @ v)
        assert t["merge"].shape == t["output"].shape == (6, 8)

    def test_scores_are_query_times_key(self) -> None:
        """The source documents draw an outer product of similarities instead."""
        t = cat()
        x, (w_q, w_k, *_) = embed(WORDS, 8), projections(8)
        np.testing.assert_allclose(t["scores"].values[1], (x @ w_q)[:, 4:] @ (x @ w_k)[:, 4:].T, atol=1e-12)

    def test_an_empty_row_is_explained_and_zero(self) -> None:
        mask = CAUSAL.copy()
        mask[2] = False
        t = cat(mask=mask)
        assert (t.weights[:, 2] == 0).all()
        assert (t["maximum"].values[:, 2] == -np.inf).all()
        assert (t["context"].values[:, 2] == 0).all()
        assert "sees nothing" in t["weights"].explanation
        assert "sees nothing" not in cat(mask=CAUSAL)["weights"].explanation
        assert explain_cell(t, "weights", query=2, key=0) == "sat sees nothing: all its weights are 0"

    def test_one_query_needs_no_row_axis(self) -> None:
        t = regard.trace([1.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]], [True, False])
        assert t["scores"].shape == (2,)
        assert t["maximum"].shape == ()
        assert t.output.tolist() == [1.0]
        assert Trace.from_json(t.to_json())["maximum"].values.shape == ()

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
    def test_torch_tensors_of_any_floating_type(self, dtype: torch.dtype) -> None:
        q = torch.randn(2, 3, 4, dtype=dtype, requires_grad=True)
        t = regard.trace(q, q, q, torch.ones(3, 3, dtype=torch.bool).tril())
        x = q.detach().double().numpy()
        np.testing.assert_allclose(t.output, reference.attention(x, x, x, np.tri(3, dtype=bool)))

    def test_rules_of_regard_masks(self) -> None:
        masks = pytest.importorskip("regard.masks")
        t = cat(mask=masks.causal())
        assert "causal" in t.mask
        np.testing.assert_array_equal(t.visible, CAUSAL)


class TestJson:
    @given(problems())
    def test_round_trip_is_exact(self, problem: Problem) -> None:
        trace = regard.trace(problem.query, problem.keys, problem.values, problem.mask)
        again = Trace.from_json(trace.to_json())
        for step, same in zip(trace.steps, again.steps, strict=True):
            np.testing.assert_array_equal(step.values, same.values)
            assert step.values.shape == same.values.shape
            assert (step.name, step.formula, step.axes) == (same.name, same.formula, same.axes)
        assert again.to_json() == trace.to_json()

    def test_json_is_strict_and_infinity_is_a_string(self) -> None:
        def refuse(constant: str) -> None:
            raise AssertionError(f"{constant} is no JSON")

        document = json.loads(cat(mask=CAUSAL).to_json(), parse_constant=refuse)
        masked = next(step for step in document["steps"] if step["name"] == "mask")
        assert masked["parts"][0]["values"][0][0][5] == "-Infinity"
        assert float("-Infinity") == -np.inf  # as Number("-Infinity") is in JavaScript

    def test_nan_and_infinity_survive_the_round_trip(self) -> None:
        t = regard.trace([[np.nan, 1.0]], [[1.0, 1.0]], [[1.0]])
        assert np.isnan(Trace.from_json(t.to_json()).output).all()
        t = regard.trace([[1.0]], [[1.0]], [[np.inf]])
        assert Trace.from_json(t.to_json()).output.tolist() == [[np.inf]]

    def test_json_has_all_documented_fields(self) -> None:
        document = json.loads(cat(mask=CAUSAL, note="seed 0").to_json())
        assert (document["schema"], document["version"], document["kind"]) == ("regard.trace", 1, "layer")
        assert document["tokens"] == {"queries": WORDS, "keys": WORDS}
        assert (document["heads"], document["kv_heads"], document["scale"]) == (2, 2, 0.5)
        assert document["mask"]["visible"] == CAUSAL.tolist()
        assert document["note"] == "seed 0"
        assert [part["symbol"] for part in document["inputs"]] == ["X", "W_q", "W_k", "W_v", "W_o"]
        assert [step["name"] for step in document["steps"]] == LAYER
        for step in document["steps"]:
            assert all(step[key] for key in ("title", "explanation", "formula", "latex"))
            assert "$" not in step["explanation"] + step["formula"] + step["latex"]
            for part in step["parts"]:
                assert len(part["letters"]) == len(part["axes"]) == len(part["shape"])

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[]", "not a trace"),
            ('{"schema": "else"}', "not a trace"),
            (
                '{"schema": "regard.trace", "version": 99}',
                r"expected schema regard.trace and version 1, got \('regard.trace', 99\)",
            ),
        ],
    )
    def test_other_json_is_rejected(self, text: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            Trace.from_json(text)


class TestTokens:
    @pytest.mark.parametrize(
        ("text", "tokens"),
        [
            ("The cat  sat\non the mat.", ["The", "cat", "sat", "on", "the", "mat."]),
            ("猫坐在垫子上。", list("猫坐在垫子上。")),
            ("我用GPT模型 today", ["我", "用", "GPT", "模", "型", "today"]),
            ("ねこ ネコ", list("ねこネコ")),
            ("고양이가 앉았다", ["고양이가", "앉았다"]),
            ("  \u3000 ", []),
        ],
    )
    def test_spaces_and_characters(self, text: str, tokens: list[str]) -> None:
        assert tokenize(text) == tokens

    def test_a_word_has_the_same_vector_in_every_sentence(self) -> None:
        x = embed(["cat", "the", "cat"], 6, seed=3)
        np.testing.assert_array_equal(x[0], x[2])
        np.testing.assert_array_equal(embed(["cat"], 6, seed=3)[0], x[0])
        np.testing.assert_array_equal(embed(["cat"], 4, seed=3)[0], x[0, :4])  # wider only adds
        assert (embed(["cat"], 6, seed=4) != x[0]).all()
        # Fixed for good: traces are quoted in documents.
        assert embed(["cat"], 2).tolist() == [[0.7809396469380916, 0.3938741132571993]]

    def test_vectors_have_mean_0_and_variance_1(self) -> None:
        x = embed([str(i) for i in range(2000)], 8)
        assert abs(x.mean()) < 0.02
        assert abs(x.var() - 1) < 0.02
        assert np.abs(x).max() <= 3**0.5

    def test_a_width_of_0_is_rejected(self) -> None:
        with pytest.raises(ValueError, match="d_model must be at least 1, got 0"):
            embed(["cat"], 0)
        with pytest.raises(ValueError, match="d_model must be at least 1, got -1"):
            projections(-1)


class TestWorked:
    def test_every_step_of_a_layer_can_be_explained_for_a_cell(self) -> None:
        t = cat(mask=CAUSAL)
        said = {step.name: explain_cell(t, step.name, 5, 2, lead=(1,), decimals=2) for step in t.steps}
        assert said["scale"] == f"scaled(mat, sat) = {t['scores'].values[1, 5, 2]:.2f} × 0.5 ≈ -0.29"
        assert said["mask"] == "mat sees sat: -0.29 stays"
        assert explain_cell(t, "mask", 0, 1, decimals=2) == "The may not see cat: 0.15 becomes −∞"
        assert said["weights"].endswith(f"≈ {t.weights[1, 5, 2]:.2f}")
        assert said["merge"] == "merged(mat)[4 to 7] = context(mat) of head 1"

    def test_biases_are_part_of_the_explained_sum(self) -> None:
        t = cat(b_q=np.full(8, 0.25), b_o=np.full(8, -0.5))
        assert " + 0.250 ≈ " in explain_cell(t, "project")
        assert " + (-0.500) ≈ " in explain_cell(t, "output")

    def test_repeated_words_are_numbered(self) -> None:
        t = regard.trace(np.eye(3), np.eye(3), np.eye(3), tokens=["a", "b", "a"])
        assert explain_cell(t, "scale", 2, 1).startswith("scaled(a#2, b)")

    def test_grouped_heads_read_their_own_keys(self) -> None:
        q, k = np.arange(8.0).reshape(4, 1, 2), np.array([[[1.0, 0.0]], [[0.0, 1.0]]])
        t = regard.trace(q, k, k)
        assert explain_cell(t, "scores", lead=(2,), decimals=0) == "score(q0, k0) = 4×0 + 5×1 ≈ 5"

    def test_the_error_for_an_unknown_step_lists_the_steps(self) -> None:
        with pytest.raises(KeyError, match="no step 'softmax' in this trace; it has scores, scale"):
            regard.trace(np.eye(2), np.eye(2), np.eye(2))["softmax"]


class TestPrinted:
    def page(self, trace: Trace, width: int = 80, **options: object) -> str:
        console = Console(width=width, color_system=None, highlight=False)
        with console.capture() as capture:
            print_trace(trace, console, **options)
        return capture.get()

    def test_every_step_and_every_token_at_80_columns(self) -> None:
        page = self.page(cat(mask=CAUSAL, note="from seed 0"))
        assert all(f"  {name}  " in page for name in LAYER)
        assert "from seed 0" in page
        assert "not shown" not in page
        assert max(map(len, page.splitlines())) <= 80
        assert all(line == line.rstrip() for line in page.splitlines())

    def test_columns_line_up_even_under_wide_characters(self) -> None:
        words = ["猫", "坐", "在", "x"]
        t = trace_layer(embed(words, 4), *projections(4), heads=1, tokens=words)
        *_, header, first, second, third, last = self.page(t, steps=["weights"]).splitlines()
        # A Chinese character is two columns wide, so these lines hold fewer characters for the same width.
        assert len(header) + header.count("猫") + header.count("坐") + header.count("在") == len(last)
        assert {len(line) + 1 for line in (first, second, third)} == {len(last)}

    def test_omitted_rows_and_columns_are_mentioned(self) -> None:
        words = [f"w{i}" for i in range(40)]
        t = trace_layer(embed(words, 4), *projections(4), heads=2, tokens=words)
        page = self.page(t, steps=["weights"], rows=5)
        assert "not shown: columns 9 to 39 and rows 5 to 39" in page
        assert max(map(len, page.splitlines())) <= 80

    def test_hidden_weights_are_printed_as_0(self) -> None:
        page = self.page(cat(mask=CAUSAL), steps=["weights"])
        assert "The   1.000       0       0       0       0       0" in page

    def test_control_characters_and_markup_in_tokens_are_escaped(self) -> None:
        words = ["[red]a[/red]", "\x1b[31mb"]
        page = self.page(trace_layer(embed(words, 4), *projections(4), heads=2, tokens=words))
        assert "\x1b" not in page
        assert "[red]" in page

    def test_a_batch_and_a_single_query_print_too(self) -> None:
        q = rng.normal(size=(2, 3, 4, 5))
        assert "(B, H, L, S) = (2, 3, 4, 4), head 2" in self.page(regard.trace(q, q, q), head=2)
        assert "(S) = (3)" in self.page(regard.trace(np.ones(2), np.ones((3, 2)), np.ones((3, 2))))

    def test_invalid_heads_are_rejected(self) -> None:
        with pytest.raises(ValueError, match="head must be from 0 to 1, got 2; heads count from 0"):
            self.page(cat(), head=2)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("q", "error", "message"),
    [
        (np.ones((2, 2), dtype=int), TypeError, "q must be floating point, got int64"),
        (torch.ones(2, 2, dtype=torch.int32), TypeError, "q must be floating point, got int32"),
        ([[1.0], [1.0, 2.0]], TypeError, "q must contain numbers in rows of equal length"),
        ([["a"]], TypeError, "q must contain numbers"),
        (np.ones((2, 3)), ValueError, "same last dimension d_k, got 3 and 2"),
    ],
)
def test_bad_input(q: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        regard.trace(q, np.ones((2, 2)), np.ones((2, 2)))


def test_there_must_be_one_name_per_position() -> None:
    with pytest.raises(ValueError, match="tokens must have a name for each of the 2 positions, got 1 names"):
        regard.trace(np.eye(2), np.eye(2), np.eye(2), tokens=["one"])
