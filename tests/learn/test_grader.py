"""What the grader says of code that is wrong in ways nobody listed."""

import json

import numpy as np
import pytest

from regard.learn import Verdict, find_exercise, grade
from regard.learn.calling import call_all
from regard.learn.compare import between
from regard.learn.diagnosis import explain
from regard.learn.exchange import Array, Other, pack, unpack
from regard.learn.exercise import LANGUAGES
from regard.learn.grader import exchange, judge, pack_cases, read_answer, trusted
from regard.learn.runner import Run

IMPORT = "import numpy as np\n"


def verdict_on(name: str, source: str, seed: int = 0) -> Verdict:
    exercise = find_exercise(name)
    cases = exercise.cases(seed)
    packed = pack_cases(exercise, cases)
    with np.errstate(all="ignore"):
        answer = call_all(source, exercise.names, exercise.drive, packed, exchange)
    ours = trusted(exercise, exercise.reference, packed)
    return judge(exercise, source, seed, cases, packed, ours, Run(answer, None, "", 0.0))


SOFTMAX = "e = np.exp(x - x.max(axis=-1, keepdims=True)); y = e / e.sum(axis=-1, keepdims=True)"

GENERIC = [
    ("softmax", "def softmax(x): return None", "none", "None"),
    ("softmax", "def softmax(x): pass", "none", "return"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y.tolist()", "kind", "list"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y.T", "transposed", "(3, 2)"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y[..., None]", "shape", "(2, 3, 1)"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y.astype(np.float32)", "dtype", "float32"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y * np.nan", "nan", "6 of 6"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y * 2", "rows", "2, 2"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y[..., ::-1]", "order", "another order"),
    ("softmax", f"def softmax(x): x -= x.max(axis=-1, keepdims=True); {SOFTMAX}; return y", "mutated", "x -= 1"),
    ("softmax", f"def softmax(x, n=[]): {SOFTMAX}; n.append(1); return y + (len(n) > 9)", "remembers", "default"),
    ("softmax", f"def softmax(x): {SOFTMAX}; return y + np.random.rand()", "remembers", "random"),
    ("softmax", "def softmax(x): return x @ None", "error", "Line 2"),
    ("softmax", "def softmax(x, y): return x", "error", "missing 1 required positional argument"),
    ("softmax", "def sofmax(x): return x", "missing", "`softmax`"),
    ("softmax", "softmax = 3", "missing", "`softmax`"),
    ("softmax", "def softmax(x) return x", "syntax", "def softmax(x) return x"),
    ("softmax", "import sklern\ndef softmax(x): return x", "failed", "sklern"),
    ("softmax", "raise SystemExit(0)", "exit", "sys.exit"),
    ("softmax", "def softmax(x): exit(0)", "exit", "sys.exit"),
    ("softmax", "def softmax(x): raise KeyboardInterrupt", "exit", "sys.exit"),
    ("softmax", "def softmax(x): raise MemoryError", "memory", "1024 MB"),
    ("scaling", "def scaled_scores(Q, K, scale=None): return 7 * Q @ K.swapaxes(1, 2)", "factor", "12.12 times"),
    ("one-query", "def attention(q, k, v): return q", "count", "tuple"),
    ("one-query", "def attention(q, k, v): return q, k, v", "count", "tuple (np.ndarray (2,)"),
    ("positions", "def sinusoidal_positions(n, d): return np.zeros((n, d))", "values", "1"),
    ("queries", "def attention(Q, K, V): return Q @ 0, 0", "error", "matmul"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "kind", "said"), GENERIC, ids=lambda value: str(value)[:40])
def test_what_is_no_known_mistake_is_described(name: str, code: str, kind: str, said: str) -> None:
    verdict = verdict_on(name, IMPORT + code)
    assert not verdict.passed
    assert (verdict.kind, verdict.mistake) == (kind, None)
    assert said in verdict.message["en"]
    for language in LANGUAGES:
        assert verdict.title[language]
        assert "{" not in verdict.title[language] + verdict.message[language]


def test_two_mistakes_at_once_are_named_by_what_they_share() -> None:
    """Unscaled everywhere, and the batch leaks besides: the first failing case shows the first mistake."""
    source = (
        find_exercise("queries").mistakes[1].source.replace("weights @ V", "weights @ (V if V.ndim < 3 else V[:1])")
    )
    verdict = verdict_on("queries", source)
    assert (verdict.mistake, verdict.sure) == ("unscaled", False)
    assert "another way" in verdict.message["en"]


def test_a_mistake_of_an_exercise_wins_over_a_general_description() -> None:
    wrong_axis = IMPORT + "def softmax(x): e = np.exp(x - x.max(axis=0)); return e / e.sum(axis=0)"
    assert verdict_on("softmax", wrong_axis).mistake == "wrong-axis"


def test_the_way_asked_for_is_asked_for() -> None:
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


def test_the_failing_case_is_drawn() -> None:
    verdict = verdict_on("one-query", find_exercise("one-query").mistakes[0].source)
    assert verdict.failing is not None
    assert verdict.failing.name == {"en": "three keys of width 2", "zh": "三个宽度为 2 的键"}
    assert verdict.failing.inputs.startswith("query = [")
    assert "\nkeys = [[" in verdict.failing.inputs
    assert verdict.failing.expected.startswith("[")
    assert json.loads(json.dumps(verdict.to_json()))["failing"]["name"]["zh"] == "三个宽度为 2 的键"


def test_columns_that_sum_to_one_are_called_the_wrong_axis() -> None:
    x = np.exp(np.arange(6.0).reshape(2, 3) % 4)
    rows, columns = (Array(x / x.sum(axis, keepdims=True), "numpy", "float64") for axis in (1, 0))
    found = between(rows, columns)
    assert found is not None
    assert explain(found)[0] == "wrong-axis"


def test_numbers_may_be_plain_where_one_number_is_expected() -> None:
    assert between(Array(np.array(2.0), "numpy", "float64"), 2.0) is None
    assert between(Array(np.array(2.0), "numpy", "float64"), True) is not None
    assert between(Array(np.zeros(1), "numpy", "float64"), 0.0) is not None


@pytest.mark.parametrize("damaged", [b"", b"12345678", b"\xff" * 40, pack(3)[:-1], b"\x02\0\0\0\0\0\0\0{}"])
def test_damaged_bytes_are_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError, match="not a packed value"):
        unpack(damaged)


def test_an_array_is_never_larger_than_its_bytes() -> None:
    honest = pack(np.zeros(4))
    tree, numbers = honest[8:-32], honest[-32:]
    for old, lie in ((b"[4]", b"[8]"), (b"[4]", b'["4"]'), (b"[4]", b"[9999999999999]"), (b"[0, 32]", b"[0, 99]")):
        forged = tree.replace(old, lie)
        with pytest.raises(ValueError, match="not a packed value"):
            unpack(len(forged).to_bytes(8, "little") + forged + numbers)


def test_what_cannot_be_sent_is_named() -> None:
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
def test_a_forged_answer_is_no_answer(forged: dict) -> None:
    with pytest.raises(ValueError, match=r"not an answer|expected 1 outcomes|not a packed"):
        read_answer(forged, 1)


def test_the_child_is_graded_like_our_own_code() -> None:
    """A few through the real process: a right answer, a named mistake, and one in torch."""
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
