"""Tests of the diagram: every valid arrangement is accepted, and the first error is reported."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.languages import LANGUAGES
from regard.learn import DIAGRAMS, Diagram, check_edges, check_order

ONE, MANY = DIAGRAMS["self-attention"], DIAGRAMS["multi-head"]


def changed(diagram: Diagram, remove: str, add: str) -> list[tuple[str, str]]:
    def edges(text: str) -> list[tuple[str, str]]:
        return [(start, end) for start, _, end in (edge.partition(">") for edge in text.split())]

    kept = [edge for edge in diagram.answer if edge not in edges(remove)]
    assert len(kept) == len(diagram.answer) - len(edges(remove))
    return [*kept, *edges(add)]


@pytest.mark.parametrize(
    ("diagram", "remove", "add"),
    [
        (ONE, "", ""),
        (MANY, "", ""),
        (ONE, "product>scale scale>mask mask>softmax", "product>mask mask>scale scale>softmax"),  # mask first
        (ONE, "w_q>product product>scale scale>mask", "w_q>scale scale>product product>mask"),  # queries scaled
        (ONE, "w_k>product product>scale scale>mask", "w_k>scale scale>product product>mask"),  # keys scaled
        (ONE, "scale>mask mask>softmax", "scale>softmax"),  # without a mask
        (MANY, "scale>mask mask>softmax", "scale>softmax"),
        (MANY, "w_q>split_q split_q>product product>scale scale>mask",
         "w_q>scale scale>split_q split_q>product product>mask"),  # scaled before the split
        (MANY, "split_q>product product>scale scale>mask", "split_q>scale scale>product product>mask"),
    ],
)  # fmt: skip
def test_every_valid_arrangement_is_accepted(diagram: Diagram, remove: str, add: str) -> None:
    assert check_edges(diagram, changed(diagram, remove, add)).correct


@given(st.permutations(ONE.answer))
def test_the_order_of_the_arrows_does_not_matter(edges: list[tuple[str, str]]) -> None:
    assert check_edges(ONE, edges).correct


@pytest.mark.parametrize(
    ("diagram", "remove", "add", "piece", "says"),
    [
        (ONE, "scale>mask mask>softmax softmax>sum", "scale>softmax softmax>mask mask>sum", "mask",
         "The mask comes before softmax"),
        (ONE, "product>scale scale>mask softmax>sum", "product>mask softmax>scale scale>sum", "scale",
         "The scaling comes before softmax"),
        # the error about softmax comes first, before the mask that is left out and the missing arrow
        (ONE, "product>scale scale>mask mask>softmax softmax>sum w_v>sum", "product>softmax softmax>scale scale>sum",
         "scale", "The scaling comes before softmax"),
        (ONE, "w_k>product w_v>sum", "w_v>product w_k>sum", "product", "the values take no part"),
        (ONE, "w_v>sum", "w_k>sum", "sum", "K and V are mixed up"),
        (ONE, "input>w_k w_k>product", "w_q>w_k w_k>product", "w_k", "W_k projects the input X"),
        (ONE, "input>w_q", "", "w_q", "Nothing that W_q needs comes before it"),
        (ONE, "w_v>sum", "", "sum", "×V needs two inputs, but has only weights"),
        (ONE, "w_v>sum", "input>sum", "sum", "×V takes weights and values"),
        (ONE, "softmax>sum", "mask>sum", "sum", "softmax comes before the weighted sum"),
        (ONE, "", "w_v>output", "output", "The output takes one input"),
        (ONE, "product>scale", "softmax>scale", "softmax", "form a cycle"),
        (ONE, "scale>mask", "product>mask", "softmax", "not scaled yet"),
        (ONE, "", "input>input", "input", "form a cycle"),
        (MANY, "split_q>product w_q>split_q", "w_q>product w_q>split_q", "product", "Split Q and K into heads"),
        (MANY, "split_v>sum", "w_v>sum", "sum", "Split V into heads"),
        (MANY, "sum>merge merge>w_o w_o>output", "sum>w_o w_o>merge merge>output", "w_o", "Merge the heads before W_o"),
        (MANY, "w_o>output", "merge>output", "output", "The output takes the result of W_o"),
        (MANY, "w_q>split_q w_k>split_k", "w_k>split_q w_q>split_k", "split_q", "but gets keys K"),
    ],
)  # fmt: skip
def test_the_first_error_is_reported(diagram: Diagram, remove: str, add: str, piece: str, says: str) -> None:
    result = check_edges(diagram, changed(diagram, remove, add))
    assert not result.correct
    assert says in result.message["en"]
    assert result.message["zh"]
    assert result.piece == piece or "cycle" in says


def test_a_duplicate_arrow_is_reported() -> None:
    twice = [*ONE.answer, ONE.answer[0]]
    assert "two arrows from the input X to W_q" in check_edges(ONE, twice).message["en"]


@given(st.lists(st.tuples(st.sampled_from(sorted(MANY.pieces)), st.sampled_from(sorted(MANY.pieces))), max_size=20))
def test_any_arrangement_gets_a_result(edges: list[tuple[str, str]]) -> None:
    result = check_edges(MANY, edges)
    assert set(result.message) == set(LANGUAGES)
    assert result.correct == (result.piece is None)


@given(st.sampled_from([ONE, MANY]), st.data())
def test_accepted_orders_respect_the_dependencies(diagram: Diagram, data: st.DataObject) -> None:
    order = data.draw(st.permutations(sorted(diagram.pieces)))
    result = check_order(diagram, order)
    before = {name: order.index(name) for name in order}
    steps = ["input", "product", "mask", "softmax", "sum", "output"]
    if result.correct:
        assert [before[name] for name in steps] == sorted(before[name] for name in steps)
        assert before["scale"] < before["softmax"]


@pytest.mark.parametrize(
    "order",
    [
        "input w_q w_k w_v product scale mask softmax sum output",
        "input w_v w_k w_q product mask scale softmax sum output",
        "input w_q scale w_k product mask softmax w_v sum output",
        "input w_q w_k w_v product scale softmax sum output",
    ],
)
def test_valid_orders_are_accepted(order: str) -> None:
    assert check_order(ONE, order.split()).correct


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ("input w_q w_k w_v product scale softmax mask sum output", "The mask comes before softmax"),
        ("input w_q w_k w_v product mask softmax scale sum output", "The scaling comes before softmax"),
        ("input w_q product w_k w_v scale mask softmax sum output", "Q·Kᵀ needs two inputs"),
        ("input w_q w_k w_v product scale mask sum softmax output", "Scores are not weights yet"),
        ("input w_q w_k product scale mask softmax sum w_v output", "×V needs two inputs"),
        ("output input w_q w_k w_v product scale mask softmax sum", "Nothing that the output needs"),
        ("input w_q w_k w_v mask product scale softmax sum output", "Nothing that the mask needs"),
    ],
)
def test_invalid_orders_are_rejected(order: str, says: str) -> None:
    result = check_order(ONE, order.split())
    assert not result.correct
    assert says in result.message["en"]


def test_unknown_or_missing_pieces_raise() -> None:
    with pytest.raises(ValueError, match=r"the pieces are input, .*, got 'relu'"):
        check_edges(ONE, [("input", "relu")])
    with pytest.raises(ValueError, match=r"every piece once; missing: \['output'\], too many: none"):
        check_order(ONE, sorted(set(ONE.pieces) - {"output"}))
