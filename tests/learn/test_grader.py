"""Tests of the grader on code with mistakes that no exercise lists, and of the serialization."""

import json
import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

import regard.learn
from regard.languages import LANGUAGES
from regard.learn import Verdict, find_exercise, grade
from regard.learn.grader.compare import compare_values
from regard.learn.grader.diagnose_difference import explain
from regard.learn.grader.grade import grade_run, pack_cases, read_answer, serialization
from regard.learn.sandbox.call_on_cases import call_all
from regard.learn.sandbox.run_in_child_process import Run
from regard.learn.sandbox.serialization import Array, Other, pack, unpack

IMPORT = "import numpy as np\n"


def verdict_on(name: str, source: str, seed: int = 0) -> Verdict:
    exercise = find_exercise(name)
    cases = exercise.cases(seed)
    packed = pack_cases(exercise, cases)
    with np.errstate(all="ignore"):
        answer = call_all(source, exercise.names, exercise.drive, packed, serialization)
    return grade_run(exercise, source, seed, cases, Run(answer, None, "", 0.0))


SOFTMAX = "e = np.exp(x - x.max(axis=-1, keepdims=True)); y = e / e.sum(axis=-1, keepdims=True)"

GENERIC = [
    ("softmax", "def softmax(x): return None", "none", "None"),
    ("softmax", "def softmax(x): pass", "none", "return"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y.tolist()", "kind", "list"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y.T", "transposed", "(3, 2)"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y[..., None]", "shape", "(2, 3, 1)"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y.astype(np.float16)", "dtype", "float16"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y * np.nan", "nan", "6 of 6"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y * 2", "rows", "2, 2"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y[..., ::-1]", "order", "another order"),
    ("softmax", f"def softmax(x): x -= x.max(axis=-1, keepdims=True); {SOFTMAX}; return y", "mutated", "x -= 1"),
    ("softmax", f"def softmax(x, n=[]): {SOFTMAX}; n.append(1); return y + (len(n) > 9)", "remembers", "default"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y + np.random.rand()", "remembers", "random"),
    ("softmax", "def softmax(x): return x @ None", "error", "Line 2"),
    ("softmax", "def sofmax(x): return x", "missing", "`softmax`"),
    ("softmax", "softmax = 3", "missing", "`softmax`"),
    ("softmax", "def softmax(x) return x", "syntax", "def softmax(x) return x"),
    ("softmax", "import sklern\ndef softmax(x): return x", "failed", "sklern"),
    ("softmax", "raise SystemExit(0)", "exit", "sys.exit"),
    ("softmax", "def softmax(x): exit(0)", "exit", "sys.exit"),
    ("softmax", "def softmax(x): raise KeyboardInterrupt", "exit", "sys.exit"),
    ("softmax", "def softmax(x): raise MemoryError", "memory", "1024 MB"),
    ("scaling", "def scaled_scores(Q, K, scale=None): return 7 * Q @ K.swapaxes(1, 2)", "factor", "12.12 times"),
    ("one-query", "def attention(q, k, v): return q", "kind", "tuple"),
    ("one-query", "def attention(q, k, v): return q, k, v", "count", "tuple (np.ndarray (2,)"),
    ("one-query", "def attention(q, k, v): return {'output': q}", "kind", "dict ('output')"),
    ("one-query", "def attention(q, k, v): return object(), v", "kind", "object (in `output`)"),
    ("one-query", "def attention(q, k, v): return v * np.inf, v @ v.T", "shape", "(in `output`)"),
    ("layer-norm", "def layer_norm(x, g, b, eps=0): return x / 0 * np.sign(x)", "infinite", "infinite"),
    ("positions", "def sinusoidal_positions(n, d): return np.zeros((n, d))", "constant", "0"),
    ("queries", "def attention(Q, K, V): return Q @ 0, 0", "error", "matmul"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "kind", "said"), GENERIC, ids=lambda value: str(value)[:40])
def test_an_unknown_mistake_is_described(name: str, code: str, kind: str, said: str) -> None:
    verdict = verdict_on(name, IMPORT + code)
    assert not verdict.passed
    assert (verdict.kind, verdict.mistake) == (kind, None)
    assert said in verdict.message["en"]
    for language in LANGUAGES:
        assert verdict.title[language]
        assert "{" not in verdict.title[language] + verdict.message[language]


RULES = [
    ("softmax", "import torch\ndef softmax(x): return torch.softmax(x, -1)", "library", "Line 1 uses `torch`"),
    ("softmax", "from scipy.special import softmax", "library", "Line 1 uses `scipy`"),
    ("linear", "from torch.nn import functional as f\ndef linear_loop(x, w, b): return f.linear(x, w, b)\n"
     "linear_reshape = linear_loop", "forbidden", "Line 2, `def linear_loop(x, w, b): return f.linear(x, w, b)`"),
    ("linear", "import torch\ndef linear_loop(x, w, b):\n"
     "    return getattr(getattr(torch, 'n' + 'n').functional, 'lin' + 'ear')(x, w, b)\n"
     "linear_reshape = linear_loop", "forbidden", "Line 3"),
    ("online-softmax", "import numpy as np\ndef online_attention(q, k, v, tile):\n    s = k @ q / len(q) ** 0.5\n"
     "    e = np.exp(s - s.max())\n    return e @ v / e.sum(), s.max() + np.log(e.sum())", "forbidden", "`tile`"),
    ("self-attention", "def compute_qkv(X, *W): return X\ndef self_attention(Q, K, V): return Q", "count", "3 values"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "kind", "said"), RULES, ids=lambda value: str(value)[:30])
def test_what_a_statement_forbids_is_refused(name: str, code: str, kind: str, said: str) -> None:
    verdict = verdict_on(name, code)
    assert (verdict.passed, verdict.kind) == (False, kind)
    assert said in verdict.message["en"]
    assert verdict.message["zh"]


WRITTEN_ANOTHER_WAY = [
    ("one-query", "scaled-by-keys", """
import math
def attention(query, keys, values):
    scores = [sum(a * b for a, b in zip(query, key)) / math.sqrt(len(keys)) for key in keys]
    e = [math.exp(s - max(scores)) for s in scores]
    weights = np.array([x / sum(e) for x in e])
    return sum(w * v for w, v in zip(weights, values)), weights
"""),
    ("queries", "wrong-axis", """
def attention(Q, K, V):
    e = np.einsum("...ld,...sd->...sl", Q, K) / np.sqrt(K.shape[-1])
    e = np.exp(e - e.max(-1, keepdims=True))
    weights = np.moveaxis(e / e.sum(-1, keepdims=True), -1, -2)
    return np.einsum("...ls,...sv->...lv", weights, V), weights
"""),
    ("masks", "mask-multiplied", """
def masked_attention(Q, K, V, mask):
    scores = np.einsum("...ld,...sd->...ls", Q, K) / Q.shape[-1] ** 0.5
    scores = np.where(mask, scores, 0)
    weights = np.exp(scores - np.logaddexp.reduce(scores, -1, keepdims=True))
    return weights @ V, weights
"""),
    ("multi-head", "interleaved", """
from einops import rearrange
def multi_head_attention(Q, K, V, n_heads):
    q, k, v = (rearrange(x, "b n (d h) -> b h n d", h=n_heads) for x in (Q, K, V))
    s = np.einsum("bhld,bhsd->bhls", q, k) / q.shape[-1] ** 0.5
    e = np.exp(s - s.max(-1, keepdims=True))
    w = e / e.sum(-1, keepdims=True)
    return rearrange(w @ v, "b h n d -> b n (d h)"), w
"""),
    ("positions", "halves", """
def sinusoidal_positions(length, d_model):
    angles = np.outer(np.arange(length), 10000.0 ** (-np.arange(0, d_model, 2) / d_model))
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :d_model]
"""),
    ("layer-norm", "unbiased", """
def layer_norm(x, gamma, beta, eps=1e-5):
    n = x.shape[-1]
    centred = x - x.sum(-1, keepdims=True) / n
    return centred / ((centred**2).sum(-1, keepdims=True) / (n - 1) + eps) ** 0.5 * gamma + beta
"""),
    ("causal", "aligned-at-start", """
import torch
def causal_attention(Q, K, V):
    out = torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=True)
    seen = torch.arange(K.shape[-2]) <= torch.arange(Q.shape[-2])[:, None]
    scores = torch.einsum("bhld,bhsd->bhls", Q, K) * Q.shape[-1] ** -0.5
    return out, torch.where(seen, scores, -torch.inf).softmax(-1)
"""),
    ("kv-cache", "overwritten", """
import torch.nn.functional as F
def step(x, cache, W_q, W_k, W_v):
    return F.scaled_dot_product_attention(x @ W_q, x @ W_k, x @ W_v, is_causal=True), (x @ W_k, x @ W_v)
"""),
    ("spatial", "no-residual", """
import torch.nn.functional as F
def spatial_attention(x, W_qkv, W_out, heads):
    B, C, H, W = x.shape
    if C % heads: raise ValueError("no")
    q, k, v = F.conv2d(x, W_qkv[..., None, None]).view(B, 3, heads, C // heads, H * W).transpose(-1, -2).unbind(1)
    y = F.scaled_dot_product_attention(q, k, v).transpose(-1, -2).reshape(B, C, H, W)
    return F.conv2d(y, W_out[..., None, None])
"""),
]  # fmt: skip


@pytest.mark.parametrize(("name", "mistake", "code"), WRITTEN_ANOTHER_WAY, ids=lambda value: str(value)[:30])
def test_a_mistake_is_recognised_in_other_code(name: str, mistake: str, code: str) -> None:
    for seed in range(3):
        verdict = verdict_on(name, IMPORT + code, seed)
        assert (verdict.mistake, verdict.sure) == (mistake, True), verdict.title


def test_two_mistakes_are_named_by_the_first_failing_case() -> None:
    """Unscaled scores and, with a batch, wrong values: the first failing case shows the first mistake."""
    source = (
        find_exercise("queries").mistakes[1].source.replace("weights @ V", "weights @ (V if V.ndim < 3 else V[:1])")
    )
    verdict = verdict_on("queries", source)
    assert (verdict.mistake, verdict.sure) == ("unscaled", False)
    assert "another way" in verdict.message["en"]


def test_a_known_mistake_takes_precedence_over_a_description() -> None:
    wrong_axis = IMPORT + "def softmax(x): e = np.exp(x - x.max(axis=0)); return e / e.sum(axis=0)"
    assert verdict_on("softmax", wrong_axis).mistake == "wrong-axis"


def test_code_without_the_required_call_fails() -> None:
    matmul = """
def split_heads(x, heads): return x.unflatten(-1, (heads, -1)).transpose(1, 2)
def merge_heads(x): return x.transpose(1, 2).flatten(2)
def packed_attention(qkv, heads):
    q, k, v = (split_heads(x, heads) for x in qkv.chunk(3, -1))
    return merge_heads((q @ k.mT / q.shape[-1] ** 0.5).softmax(-1) @ v)
"""
    verdict = verdict_on("einops", matmul)
    assert (verdict.passed, verdict.kind) == (False, "must-call")
    assert "`rearrange`" in verdict.message["zh"]


def test_the_failing_case_is_shown() -> None:
    verdict = verdict_on("one-query", find_exercise("one-query").mistakes[0].source)
    assert verdict.failing is not None
    assert verdict.failing.name == {"en": "three keys of width 2", "zh": "三个宽度为 2 的键"}
    assert verdict.failing.inputs.startswith("query = [")
    assert "\nkeys = [[" in verdict.failing.inputs
    assert verdict.failing.expected.startswith("[")
    assert verdict.failing.which == {"en": "`output`", "zh": "`output`"}
    assert json.loads(json.dumps(verdict.to_json()))["failing"]["name"]["zh"] == "三个宽度为 2 的键"


def test_columns_that_sum_to_one_are_reported_as_wrong_axis() -> None:
    x = np.exp(np.arange(6.0).reshape(2, 3) % 4)
    rows, columns = (Array(x / x.sum(axis, keepdims=True), "numpy", "float64") for axis in (1, 0))
    found = compare_values(rows, columns)
    assert found is not None
    assert explain(find_exercise("softmax"), found)[0] == "wrong-axis"


def test_a_python_number_is_accepted_for_a_scalar_array() -> None:
    assert compare_values(Array(np.array(2.0), "numpy", "float64"), 2.0) is None
    assert compare_values(Array(np.array(2.0), "numpy", "float64"), True) is not None
    assert compare_values(Array(np.zeros(1), "numpy", "float64"), 0.0) is not None


@pytest.mark.parametrize("damaged", [b"", b"12345678", b"\xff" * 40, pack(3)[:-1], b"\x02\0\0\0\0\0\0\0{}"])
def test_damaged_bytes_are_rejected(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="not a packed value"):
        unpack(damaged)


def test_an_array_is_never_larger_than_its_bytes() -> None:
    honest = pack(np.zeros(4))
    tree, numbers = honest[8:-32], honest[-32:]
    for old, lie in ((b"[4]", b"[8]"), (b"[4]", b'["4"]'), (b"[4]", b"[9999999999999]"), (b"[0, 32]", b"[0, 99]")):
        forged = tree.replace(old, lie)
        with pytest.raises(ValueError, match="not a packed value"):
            unpack(len(forged).to_bytes(8, "little") + forged + numbers)


def test_values_that_cannot_be_serialized_are_named() -> None:
    assert unpack(pack([object(), {1: 2}, 10**30, np.array([object()])])) == [
        Other("object"), Other("dict"), Other("int"), Other("an array of object"),
    ]  # fmt: skip
    nested: list = []
    nested.append(nested)
    pack(nested)


@pytest.mark.parametrize(
    "forged",
    [{}, {"outcomes": 3, "again": {}}, {"outcomes": [], "again": {"value": pack(1), "mutated": False}}, {"failed": {}},
     {"outcomes": [{"value": 3, "mutated": False}], "again": {}}, {"outcomes": [{"error": 3}], "again": {}}],
)  # fmt: skip
def test_a_forged_answer_is_rejected(forged: dict) -> None:
    with pytest.raises(ValueError, match=r"not an answer|expected 1 outcomes|not a packed"):
        read_answer(forged, 1)


def test_grading_works_through_the_child_process() -> None:
    """Grade a correct answer, a known mistake, and an answer in torch in the child process."""
    assert grade("softmax", find_exercise("softmax").correct["logarithm"]).passed
    verdict = grade(
        "softmax", IMPORT + "def softmax(x):\n    print('hi')\n    e = np.exp(x); return e / e.sum(-1, keepdims=True)"
    )
    assert (verdict.mistake, verdict.sure) == ("unstable", True)
    assert "hi\n" in verdict.printed
    spatial = find_exercise("spatial")
    verdict = grade(spatial, spatial.mistakes[0].source, seed=3)
    assert verdict.mistake == spatial.mistakes[0].key
    assert verdict.seed == 3


def test_cases_differ_from_run_to_run() -> None:
    seeds = {grade("softmax", "def softmax(x): return x").seed for _ in range(2)}
    assert len(seeds) == 2


@pytest.mark.parametrize("file", ["grader/messages.toml", "mistakes/texts.toml", "terminal.toml"])
def test_both_languages_have_every_text_with_the_same_placeholders(file: str) -> None:
    entries = tomllib.loads((Path(regard.learn.__file__).parent / file).read_text(encoding="utf-8"))
    for key, entry in entries.items():
        assert set(entry) == set(LANGUAGES), key
        en, zh = (re.findall(r"\{(\w+)[^}]*\}", str(entry[language])) for language in LANGUAGES)
        assert sorted(en) == sorted(zh), key
        assert re.search("[\u4e00-\u9fff]", str(entry["zh"])), key
        assert not re.search("[\u4e00-\u9fff]", str(entry["en"])), key
