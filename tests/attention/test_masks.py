"""Masks: visible pairs of each mask, the algebra, block plans, exports, explanations and errors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import masks
from regard.attention.kernels.block_plan import plan
from regard.attention.masks.mask import HIDDEN, VISIBLE
from regard.attention.masks.shifted_positions import shift_mask
from support.strategies import rules

SIZES = st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 40), st.integers(1, 40))


def picture(mask: masks.Mask, queries: int, keys: int, **where: int) -> str:
    return mask.draw(queries, keys, **where).replace(" ", "").replace("\n", "/")


@pytest.mark.parametrize(
    ("mask", "drawn"),
    [
        (masks.causal(), "■··/■■·/■■■"),
        (masks.window(keys=1), "■··/·■·/··■"),
        (masks.window(keys=3, ahead=1), "■■·/■■■/·■■"),
        (masks.dilated(keys=2, step=2), "■··/·■·/■·■"),
        (masks.blocks(2), "■■·/■■·/··■"),
        (masks.blocks(2, layout=[[True, False], [True, False]]), "■■·/■■·/■■·"),
        (masks.prefix(1), "■··/■··/■··"),
        (masks.padding([2]), "■■·/■■·/■■·"),
        (masks.documents([7, 7, 3]), "■■·/■■·/··■"),
        (~masks.causal(), "·■■/··■/···"),
        (masks.causal() & ~masks.prefix(1), "···/·■·/·■■"),
        (masks.causal() | masks.prefix(2), "■■·/■■·/■■■"),
    ],
    ids=repr,
)
def test_visible_pairs_of_each_mask(mask: masks.Mask, drawn: str) -> None:
    assert picture(mask, 3, 3) == drawn


def test_causal_is_aligned_at_the_end() -> None:
    assert picture(masks.causal(), 1, 3) == "■■■"
    assert picture(masks.causal(), 2, 3) == "■■·/■■■"
    assert picture(masks.causal(), 3, 1) == "·/·/■"


@given(st.integers(1, 12), st.integers(1, 12), st.data())
def test_a_window_shows_at_most_its_keys_and_the_own_position(keys: int, size: int, data: st.DataObject) -> None:
    seen = masks.window(keys=keys, ahead=data.draw(st.integers(0, keys - 1))).numpy(size, size)
    assert seen.sum(-1).max() <= keys
    assert seen.diagonal().all()


@given(SIZES, st.data())
def test_combinations_are_logical_operations(size: tuple[int, int, int, int], data: st.DataObject) -> None:
    _batch, _heads, queries, keys = size
    a, b = (data.draw(rules(*size, depth=1)) for _ in range(2))
    table = lambda mask: np.broadcast_to(mask.numpy(queries, keys), size)  # noqa: E731
    assert (table(a & b) == (table(a) & table(b))).all()
    assert (table(a | b) == (table(a) | table(b))).all()
    assert (table(~a) == ~table(a)).all()


@given(SIZES, st.data())
def test_numpy_and_torch_agree(size: tuple[int, int, int, int], data: st.DataObject) -> None:
    mask = data.draw(rules(*size))
    assert (mask.tensor(*size[2:]).numpy() == mask.numpy(*size[2:])).all()


@given(SIZES, st.data())
def test_the_state_of_a_block_agrees_with_its_pairs(size: tuple[int, int, int, int], data: st.DataObject) -> None:
    batch, heads, queries, keys = size
    mask = data.draw(rules(*size))
    seen = np.broadcast_to(mask.numpy(queries, keys), size)
    first = keys - queries
    for item in range(batch):
        q0 = data.draw(st.integers(first, keys - 1))
        q1 = data.draw(st.integers(q0 + 1, keys))
        k0 = data.draw(st.integers(0, keys - 1))
        k1 = data.draw(st.integers(k0 + 1, keys))
        block = seen[item, :, q0 - first : q1 - first, k0:k1]
        state = mask.states(item, q0, q1, np.array([k0]), np.array([k1]))[0]
        assert state != HIDDEN or not block.any()
        assert state != VISIBLE or block.all()
        rest = mask.restrict(item, q0, q1, k0, k1)
        if isinstance(rest, bool):
            assert (block == rest).all()
        else:
            q, k = np.arange(q0, q1)[:, None], np.arange(k0, k1)
            h = np.arange(heads)[:, None, None]
            assert (np.broadcast_to(rest.visible(np.array(item), h, q, k), block.shape) == block).all()


@given(SIZES, st.integers(1, 16), st.data())
def test_a_plan_covers_every_visible_pair_once(
    size: tuple[int, int, int, int], block: int, data: st.DataObject
) -> None:
    batch, _heads, queries, keys = size
    mask = data.draw(rules(*size))
    seen = np.broadcast_to(mask.numpy(queries, keys), size)
    covered = np.zeros((batch, queries, keys), int)
    for tile in plan(mask, queries, keys, block=block):
        for start, stop in tile.runs:
            covered[tile.batch, tile.rows, start:stop] += 1
            if tile.rule is None:
                assert seen[tile.batch, :, tile.rows, start:stop].all()
    assert covered.max() <= 1
    assert covered[seen.any(1)].all()


def test_a_plan_grows_with_the_visible_pairs() -> None:
    def pairs(length: int) -> int:
        tiles = plan(masks.window(keys=256), length, length)
        return sum((tile.rows.stop - tile.rows.start) * tile.keys for tile in tiles)

    assert pairs(32768) / pairs(16384) < 2.01
    assert pairs(32768) < 32768 * 256 * 1.6


def test_documents_are_separate_tiles_without_a_mask() -> None:
    ids = np.repeat([0, 1, 2], [300, 200, 524])
    tiles = plan(masks.documents(ids), 1024, 1024)
    assert [tile.runs for tile in tiles] == [((0, 300),), ((300, 500),), ((500, 1024),)]
    assert all(tile.rule is None for tile in tiles)


def test_many_short_documents_share_tiles() -> None:
    assert len(plan(masks.documents(np.arange(1024) // 2), 1024, 1024)) <= 1024 // 64


@given(SIZES, st.data())
def test_a_shifted_mask_shows_a_piece_of_the_whole_mask(size: tuple[int, int, int, int], data: st.DataObject) -> None:
    _, _, queries, keys = size
    mask = data.draw(rules(*size, depth=1))
    start = data.draw(st.integers(0, keys - 1))
    stop = data.draw(st.integers(start + 1, keys))
    piece = shift_mask(mask, queries=keys - (stop - start), keys=start)
    assert (piece.numpy(queries, stop - start) == mask.numpy(queries, keys)[..., start:stop]).all()


# -- formats of torch --------------------------------------------------------------------------------


@given(SIZES, st.data())
@settings(max_examples=30)
def test_exports_to_sdpa_and_mha_hide_the_same_pairs(size: tuple[int, int, int, int], data: st.DataObject) -> None:
    batch, heads, queries, keys = size
    mask = data.draw(rules(*size))
    visible = torch.from_numpy(np.broadcast_to(mask.numpy(queries, keys), size).copy())
    q, k, v = (torch.randn(batch, n, heads * 2) for n in (queries, keys, keys))
    layer = torch.nn.MultiheadAttention(heads * 2, heads, batch_first=True)
    _, maps = layer(q, k, v, attn_mask=mask.to_mha(queries, keys, batch=batch, heads=heads), average_attn_weights=False)
    rows = visible.any(-1)
    assert ((maps > 0) == visible)[rows].all()
    assert (mask.to_sdpa(queries, keys).expand(size) == visible).all()


def test_to_mha_requires_heads_if_the_mask_differs_between_them() -> None:
    with pytest.raises(ValueError, match="heads=num_heads"):
        masks.padding([1, 2]).to_mha(2, 2)


@given(SIZES, st.data())
@settings(max_examples=30)
def test_the_export_to_flex_attention_hides_the_same(size: tuple[int, int, int, int], data: st.DataObject) -> None:
    from torch.nn.attention.flex_attention import create_mask

    batch, heads, queries, keys = size
    # FlexAttention traces the rule with vmap, where data has to be tensors.
    mask = data.draw(st.sampled_from([masks.causal(), masks.window(keys=3, ahead=1), masks.blocks(4), masks.prefix(2)]))
    mask = mask & masks.padding(torch.randint(0, keys + 1, (batch,)))
    made = create_mask(mask.to_flex(queries, keys), batch, heads, queries, keys, device="cpu")
    assert (made == mask.tensor(queries, keys).expand(size)).all()


# -- explanations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "query", "key", "said"),
    [
        (masks.causal(), 1, 2, "query 1 cannot see key 2: causal() hides it (key 2 comes after position 1)"),
        (masks.causal(), 2, 1, "query 2 sees key 1: causal() shows it (key 1 is not after position 2)"),
        (masks.causal() & masks.padding([2]), 3, 2, "query 3 cannot see key 2: padding hides it (item 0 has 2 keys)"),
        (masks.causal() | masks.prefix(4), 0, 3, "query 0 sees key 3: prefix(4) shows it (it shows the first 4 keys)"),
        (
            masks.documents([5, 5, 9]),
            2,
            0,
            "query 2 cannot see key 0: documents hides it (the query is in document 9, the key in 5)",
        ),
        (
            ~masks.blocks(2),
            0,
            1,
            "query 0 cannot see key 1: ~ inverts that blocks(2) shows it (both are in block 0)",
        ),
    ],
)
def test_explanation_of_a_pair(mask: masks.Mask, query: int, key: int, said: str) -> None:
    assert mask.explain(query, key) == said


def test_an_explanation_names_the_position_if_it_differs_from_the_index() -> None:
    assert masks.causal().explain(0, 2, queries=1, keys=3).startswith("query 0 (at position 2) sees key 2")


@given(SIZES, st.data())
def test_an_explanation_agrees_with_the_mask(size: tuple[int, int, int, int], data: st.DataObject) -> None:
    batch, heads, queries, keys = size
    mask = data.draw(rules(*size))
    b, h = data.draw(st.integers(0, batch - 1)), data.draw(st.integers(0, heads - 1))
    i, j = data.draw(st.integers(0, queries - 1)), data.draw(st.integers(0, keys - 1))
    seen = np.broadcast_to(mask.numpy(queries, keys), size)[b, h, i, j]
    said = mask.explain(i, j, batch=b, head=h, queries=queries, keys=keys)
    assert (" sees key " in said) == seen


def test_str_draws_and_repr_is_read_back() -> None:
    mask = (masks.causal() | masks.prefix(2)) & ~masks.window(keys=3, ahead=1)
    assert repr(mask) == "(causal() | prefix(2)) & ~window(keys=3, ahead=1)"
    assert repr(masks.parse(repr(mask))) == repr(mask)
    assert str(mask).splitlines()[1].startswith("· ·")
    assert masks.parse("causal & window(3)") == masks.causal() & masks.window(keys=3)


def test_a_large_mask_is_drawn_in_part() -> None:
    drawn = masks.causal().draw(100, 100).splitlines()
    assert len(drawn) == 33
    assert drawn[0].endswith("…")


def test_tensors_and_arrays_can_be_either_operand() -> None:
    table = np.array([[True, False], [True, True]])
    for other in (table, torch.from_numpy(table)):
        assert picture(masks.causal() & other, 2, 2) == picture(other & masks.causal(), 2, 2) == "■·/■■"
        assert picture(masks.prefix(0) | other, 2, 2) == picture(other | masks.prefix(0), 2, 2) == "■·/■■"


# -- bad input -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: masks.window(keys=-3), ValueError, r"at least 1, got -3: the query's own position"),
        (lambda: masks.window(keys=0), ValueError, "at least 1, got 0"),
        (lambda: masks.window(keys=2.5), TypeError, "whole number, got 2.5"),
        (lambda: masks.window(keys=True), TypeError, "whole number, got True"),
        (lambda: masks.window(keys=2, ahead=2), ValueError, "at most keys − 1 = 1 can be ahead"),
        (lambda: masks.dilated(keys=2, step=0), ValueError, "at least 1, got 0"),
        (lambda: masks.blocks(0), ValueError, "at least 1"),
        (lambda: masks.blocks(2, layout=[1, 0]), ValueError, "rows, columns"),
        (lambda: masks.prefix(-1), ValueError, "at least 0, got -1"),
        (lambda: masks.padding([-1, 2]), ValueError, "must not be negative, got -1"),
        (lambda: masks.padding([[1, 0]]), ValueError, r"lengths \(B,\) .* or booleans .* got int of shape \(1, 2\)"),
        (lambda: masks.padding([1.5]), TypeError, "got float"),
        (lambda: masks.documents([0.5]), TypeError, "whole numbers"),
        (lambda: masks.documents(np.zeros((1, 2, 3), int)), ValueError, r"got shape \(1, 2, 3\)"),
        (lambda: masks.given([[1, 0]]), TypeError, "True = visible, got int; write mask != 0"),
        (lambda: masks.given([True]), ValueError, r"\(L, S\)"),
        (lambda: masks.rule(3), TypeError, "takes a function"),  # type: ignore[arg-type]
        (lambda: masks.padding([1, 2]) & masks.padding([1, 2, 3]), ValueError, "different batch sizes"),
        (lambda: masks.padding([5]).numpy(3, 3), ValueError, "a length of 5 is longer than the 3 keys"),
        (lambda: masks.padding([5, 2]).tensor(3, 6, batch=3), ValueError, "is for a batch of 2, but the batch has 3"),
        (lambda: masks.documents([0, 1]).numpy(3, 3), ValueError, "2 ids for 3 keys"),
        (lambda: bool(masks.causal()), TypeError, "& | ~"),
        (lambda: masks.causal().explain(0, 9, queries=3, keys=3), ValueError, "inside 3 queries and 3 keys"),
        (lambda: masks.padding([2, 3]).draw(3, 3, batch=2), ValueError, "batch must be an index .* has 2; got batch=2"),
        (lambda: masks.padding([]).explain(0, 0), ValueError, "has 0; got batch=0"),
        (lambda: masks.parse("causl"), ValueError, "the rules are causal, window"),
        (lambda: masks.parse("causal and"), ValueError, "cannot read the mask"),
        (lambda: masks.parse("window(keys=x)"), ValueError, "cannot read the numbers"),
        (lambda: masks.parse("window()"), ValueError, "window: missing 1 required"),
        (lambda: masks.parse("window(-1)"), ValueError, "at least 1, got -1"),
        (lambda: masks.parse("__import__('os')"), ValueError, "cannot read"),
    ],
)
def test_bad_input(make: object, error: type[Exception], said: str, unchecked: None) -> None:
    with pytest.raises(error, match=said):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    "mask",
    [masks.padding([]), masks.padding(torch.zeros(0, 4, dtype=torch.bool)), masks.documents(np.zeros((0, 4), int))],
)
def test_masks_of_empty_batches_have_no_drawing(mask: masks.Mask) -> None:
    assert str(mask) == repr(mask)
    assert str(mask & masks.causal()) == repr(mask & masks.causal())
