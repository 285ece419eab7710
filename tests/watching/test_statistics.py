"""Statistics of a call compared with those of the stored weights, and the findings of the doctor."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

import regard
from regard import masks
from regard.watching import Call
from support.strategies import rules


class Attends(nn.Module):
    """Calls regard.attend with the given arguments."""

    def forward(self, q, k, mask=None, bias=None):
        return regard.attend(q, k, k, mask, bias=bias)


def call_of(q, k, mask=None, bias=None) -> Call:
    model = Attends()
    positions = torch.arange(k.shape[-2] - q.shape[-2], k.shape[-2])
    with torch.no_grad(), regard.watch(model, positions=positions) as seen:
        model(q, k, mask, bias)
    return seen.calls[0]


SIZES = st.tuples(st.integers(1, 2), st.sampled_from([2, 4]), st.integers(1, 200), st.integers(1, 200))


@given(SIZES, st.data())
@settings(max_examples=60)
def test_statistics_equal_those_of_the_weights(size, data) -> None:
    batch, heads, queries, keys = size
    mask = data.draw(st.none() | rules(*size))
    bias = data.draw(st.sampled_from([None, torch.randn(heads, queries, keys)]))
    q, k = torch.randn(batch, heads, queries, 8), torch.randn(batch, 2, keys, 8)
    call = call_of(q, k, mask, bias)
    w = regard.attend(
        q.double(), k.double(), k.double(), mask, bias=None if bias is None else bias.double(), weights=True
    )[1]
    assert (call.weights() - w).abs().max() < 1e-5
    some = w.sum(-1) > 0
    place = torch.arange(keys, dtype=torch.float64)
    own = torch.arange(keys - queries, keys)
    entropy = -(w * w.clamp_min(1e-300).log()).sum(-1)
    mean = w @ place
    assert (call.entropy() - entropy).abs().max() < 1e-4
    assert ((call.distance() - (own - mean)) * some).abs().max() < 1e-3
    assert (call.mass(on=[0, keys - 1]) - w[..., list({0, keys - 1})].sum(-1)).abs().max() < 1e-5
    for offset in (-1, 0, 2):
        expected = torch.zeros(batch, heads, queries, dtype=torch.float64)
        for i, j in enumerate(range(keys - queries + offset, keys + offset)):
            if 0 <= j < keys:
                expected[:, :, i] = w[:, :, i, j]
        assert (call.at_offset(offset) - expected).abs().max() < 1e-5
    assert (call.received() - w.sum(-2)).abs().max() < 1e-3
    assert (call.statistics.empty == ~some).all()
    values, indices = call.top(3)
    best = w.topk(min(3, keys), -1).values
    assert (values - best).abs().max() < 1e-5
    assert ((w.gather(-1, indices.clamp_min(0)) - best) * (indices >= 0)).abs().max() < 1e-5


def test_top_of_long_rows() -> None:
    q, k = torch.randn(1, 2, 60, 8), torch.randn(1, 2, 1500, 8) * 3
    call = call_of(q, k, masks.causal())
    values, indices = call.top(8)
    best = call.weights().topk(8, -1)
    torch.testing.assert_close(values, best.values)
    torch.testing.assert_close(call.weights().gather(-1, indices), values)


def test_long_causal_call() -> None:
    q = torch.randn(1, 1, 1100, 8)
    call = call_of(q, q, masks.causal())
    w = call.weights()
    torch.testing.assert_close(call.received(), w.sum(-2), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(call.top(4)[0], w.topk(4, -1).values)


def test_selections_of_the_weights(unchecked) -> None:
    call = call_of(torch.randn(2, 4, 6, 8), torch.randn(2, 2, 9, 8), masks.causal())
    whole = call.weights()
    assert whole.shape == (2, 4, 6, 9)
    torch.testing.assert_close(call.weights(head=1), whole[:, 1])
    torch.testing.assert_close(call.weights(head=1, batch=0, queries=-1, keys=[0, 2]), whole[0, 1, -1, [0, 2]])
    torch.testing.assert_close(call.weights(queries=slice(1, 4), keys=slice(2)), whole[:, :, 1:4, :2])
    for selection, message in (
        ({"head": 4}, "head: index 4 is out of range, there are 4"),
        ({"queries": [9]}, "there are 6"),
    ):
        with pytest.raises(ValueError, match=message):
            call.weights(**selection)
    with pytest.raises(TypeError, match="an index, a slice or a list"):
        call.weights(head="one")


def test_weight_blocks_apply_a_boolean_table() -> None:
    q = torch.randn(2, 2, 200, 8)
    table = masks.given(torch.rand(2, 1, 200, 200) < 0.3)
    for mask in (table, table & masks.causal(), table | masks.prefix(3)):
        call = call_of(q, q, mask)
        weights = torch.zeros(call.shape)
        for block in call.weight_blocks():
            weights[block.batch, block.heads, block.rows, block.keys] = block.weights
        torch.testing.assert_close(weights, call.weights())


def test_received_is_stored_with_the_statistics() -> None:
    model, q = Attends(), torch.randn(1, 2, 30, 8)
    with torch.no_grad(), regard.watch(model, keep="statistics") as seen:
        model(q, q, masks.causal())
    torch.testing.assert_close(seen.calls[0].received(), call_of(q, q, masks.causal()).weights().sum(-2))


def test_summary_compare_and_rollout() -> None:
    model = nn.ModuleList([regard.nn.MultiHeadAttention(16, 2) for _ in range(2)])
    stack = nn.Sequential(*model)
    x = torch.randn(1, 6, 16)
    with torch.no_grad(), regard.watch(stack) as seen:
        stack(x)
    rows = seen.summary()
    assert [(row["call"], row["head"]) for row in rows] == [("0", 0), ("0", 1), ("1", 0), ("1", 1)]
    assert all(0 <= row["entropy"] <= 1.8 for row in rows)
    flow = seen.rollout()
    torch.testing.assert_close(flow.sum(-1), torch.ones(1, 6))
    with torch.no_grad(), regard.watch(stack) as other:
        stack(x * 5)
    changed = seen.compare(other)
    assert {row["call"] for row in changed} == {"0", "1"}
    assert abs(changed[0]["entropy"]) >= abs(changed[-1]["entropy"]) - 1
    assert seen.table().row_count == 4


# -- the doctor ----------------------------------------------------------------------------------------------


def findings(q, k, mask=None, bias=None, **options) -> dict[str, object]:
    model = Attends()
    with torch.no_grad(), regard.watch(model) as seen:
        model(q, k, mask, bias)
    return {finding.what: finding for finding in seen.check(**options)}


Q = torch.randn(2, 2, 8, 4, generator=torch.Generator().manual_seed(1))


def test_correct_call_has_no_findings() -> None:
    lengths = torch.tensor([8, 5])
    assert findings(Q, Q, masks.causal() & masks.padding(lengths), padding=lengths, causal=True) == {}


def test_each_kind_of_finding() -> None:
    lengths = torch.tensor([8, 5])
    real = torch.arange(8) < lengths[:, None]
    assert findings(Q, Q, masks.causal() & ~masks.prefix(2))["empty rows"].query == 0
    future = findings(Q, Q, causal=True)["sees the future"]
    assert future.key > future.query
    padded = findings(Q, Q, padding=real)["attends to padding"]
    assert padded.key >= 5
    assert findings(Q, Q, ~masks.causal(), causal=True)["mask inverted"]
    assert findings(torch.zeros_like(Q), Q)["uniform head"]
    key = torch.zeros_like(Q)
    key[:, :, 3] = 100.0
    assert findings(torch.ones_like(Q), key)["one-token head"].key == 3
    broken = Q.clone()
    broken[0, 1, 2] = float("nan")
    not_finite = findings(broken, Q)["not finite"]
    assert (not_finite.head, not_finite.query) == (1, 2)
    assert "head 1" in str(not_finite)
