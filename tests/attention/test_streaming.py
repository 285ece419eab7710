"""Attention over keys in pieces equals attention over all keys at once."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import attend, masks
from regard.attention import Stream, WithLse, attend_with_lse, merge
from support.strategies import rules


@given(st.integers(1, 40), st.integers(1, 200), st.data())
@settings(max_examples=40)
def test_attention_over_pieces_equals_attention_over_all_keys(queries: int, keys: int, data: st.DataObject) -> None:
    q, k, v = (torch.randn(2, 2, n, 8, requires_grad=True) for n in (queries, keys, keys))
    mask = data.draw(st.none() | rules(2, 2, queries, keys, depth=1))
    bias = data.draw(st.sampled_from([None, torch.randn(queries, keys)]))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, keys - 1)), max_size=4)) | {0, keys})
    stream = Stream(q, mask=mask, keys=keys, bias=bias)
    stream.feed_all((k[:, :, a:b], v[:, :, a:b]) for a, b in pairwise(cuts))
    whole = attend_with_lse(q, k, v, mask, bias=bias)
    torch.testing.assert_close(stream.output, whole.output, atol=2e-6, rtol=1e-4)
    torch.testing.assert_close(stream.result.lse, whole.lse, atol=2e-6, rtol=1e-4)
    got = torch.autograd.grad(stream.output.square().sum(), [q, k, v])
    want = torch.autograd.grad(whole.output.square().sum(), [q, k, v])
    torch.testing.assert_close(got, want, atol=2e-5, rtol=1e-4)


def test_a_row_that_is_empty_in_every_piece_is_zero() -> None:
    q, k = torch.randn(1, 3, 4, requires_grad=True), torch.randn(1, 6, 4)
    stream = Stream(q, mask=masks.prefix(0), keys=6).feed_all([(k[:, :2], k[:, :2]), (k[:, 2:], k[:, 2:])])
    assert (stream.output == 0).all()
    stream.output.sum().backward()
    assert (q.grad == 0).all()


def test_merging_is_symmetric() -> None:
    q, k, v = (torch.randn(1, n, 4) for n in (3, 5, 5))
    parts = [attend_with_lse(q, k[:, a:b], v[:, a:b]) for a, b in ((0, 2), (2, 5))]
    for order in (parts, parts[::-1]):
        torch.testing.assert_close(merge(*order).output, attend(q, k, v))
    assert isinstance(merge(*parts), WithLse)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda q: Stream(q, mask=masks.causal()), ValueError, "keys=S"),
        (lambda q: Stream(q, bias=torch.zeros(3, 5)), ValueError, "keys=S"),
        (lambda q: Stream(q, mask=torch.ones(3, 3, dtype=torch.bool), keys=3), TypeError, "masks.given"),
        (lambda q: Stream(q).output, ValueError, "nothing has been fed"),
        (lambda q: Stream(q, mask=masks.causal(), keys=2).feed(q, q), ValueError, "3 keys have been fed, .* for 2"),
    ],
)
def test_bad_input(call, error, said, unchecked) -> None:
    with pytest.raises(error, match=said):
        call(torch.randn(1, 3, 4))
