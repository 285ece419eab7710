"""Batches of examples: inputs, targets, and parts of a batch."""

import math

import pytest
import torch

from regard.training.data.examples import IGNORED, MaskedExamples, PairExamples, TextExamples, pad_rows, unigram_loss
from regard.training.tokenizer import BEGIN, END, MASK, PAD

WHOLE = slice(None)


def test_padding() -> None:
    tensor, lengths = pad_rows([[5, 6, 7], [8]])
    assert tensor.tolist() == [[5, 6, 7], [8, PAD, PAD]]
    assert lengths is not None
    assert lengths.tolist() == [3, 1]
    assert pad_rows([[5, 6], [7, 8]])[1] is None


def test_targets_of_pairs_are_shifted_and_end_with_end() -> None:
    examples = PairExamples([[10, 11], [12]], [[20], [21, 22]])
    batch = examples.batch([0, 1], WHOLE, ())
    source, known, asked, source_lengths, lengths = batch.tensors
    assert source.tolist() == [[10, 11], [12, PAD]]
    assert known.tolist() == [[BEGIN, 20, PAD], [BEGIN, 21, 22]]
    assert asked.tolist() == [[20, END, IGNORED], [21, 22, END]]
    assert (source_lengths.tolist(), lengths.tolist()) == ([2, 1], [2, 3])
    assert batch.targets == 5


def test_targets_of_text_are_shifted_by_one() -> None:
    examples = TextExamples(list(range(100, 200)), context=10)
    tokens, asked = examples.batch([0, 9], WHOLE, ()).tensors
    assert tokens[0].tolist() == list(range(100, 110))
    assert torch.equal(asked, tokens + 1)
    assert asked[1, -1] == 199  # the last piece ends with the text


def test_an_evaluation_predicts_every_token() -> None:
    examples = TextExamples(list(range(95)), context=10)
    asked = {int(i) for place in range(len(examples.lengths)) for i in examples.batch([place], WHOLE, ()).tensors[1][0]}
    assert asked == set(range(1, 95))


def test_borders_of_pieces_differ_between_epochs() -> None:
    examples = TextExamples(list(range(1000)), context=10)
    first, again, later = (examples.batch([3], WHOLE, key).tensors[0] for key in ((0, 0, 5), (0, 0, 6), (0, 1, 105)))
    assert torch.equal(first, again)
    assert not torch.equal(first, later)


@pytest.mark.parametrize(("key", "share"), [((0, 0, 7), 0.30), ((), 0.15)])
def test_30_percent_are_predicted_in_training_and_15_in_evaluation(key: tuple[int, ...], share: float) -> None:
    examples = MaskedExamples([5 + i % 50 for i in range(64_000)], 64, [True] * 55)
    batch = examples.batch(range(500), WHOLE, key)
    report, asked = batch.tensors
    hidden = asked != IGNORED
    assert batch.targets == int(hidden.sum())
    assert share - 0.01 < hidden.float().mean() < share + 0.01
    assert 0.78 < (report[hidden] == MASK).float().mean() < 0.82
    assert 0.09 < (report[hidden] == asked[hidden]).float().mean() < 0.13
    assert (report[~hidden] != MASK).all()
    assert report[report != MASK].min() >= 5  # no special token is drawn
    other = examples.batch(range(500), WHOLE, (0, 0, 8)).tensors[1]
    assert not torch.equal(asked, other)


@pytest.mark.parametrize("parts", [2, 4])
def test_parts_add_up_to_the_batch(parts: int) -> None:
    ids = [5 + i % 50 for i in range(2000)]
    for examples in (TextExamples(ids, 16), MaskedExamples(ids, 16, [True] * 55)):
        whole = examples.batch(list(range(8)), WHOLE, (0, 0, 3))
        pieces = [examples.batch(list(range(8)), slice(n, None, parts), (0, 0, 3)) for n in range(parts)]
        assert sum(piece.targets for piece in pieces) == whole.targets
        for n, piece in enumerate(pieces):
            for a, b in zip(piece.tensors, whole.tensors, strict=True):
                assert torch.equal(a, b[n::parts])


def test_all_tokens_of_a_word_are_masked_together() -> None:
    starts = [i % 2 == 1 for i in range(55)]  # words of two tokens: 5 6, 7 8, …
    examples = MaskedExamples([5 + i % 50 for i in range(64_000)], 64, starts)
    targets = examples.batch(range(500), WHOLE, ()).tensors[1]
    assert targets is not None
    hidden = (targets != IGNORED).view(500, 32, 2)
    assert torch.equal(hidden[:, 1:, 0], hidden[:, 1:, 1])


def test_unigram_loss() -> None:
    training, validation = TextExamples([5, 5, 5, 6] * 100, 8), TextExamples([6] * 50, 8)
    counts = {5: 301, 6: 101}
    total = 5 + sum(counts.values())  # ids 0 … 4 count once
    assert unigram_loss(training, validation, 4) == pytest.approx(math.log(total / counts[6]), rel=1e-6)


def test_a_text_that_is_too_short() -> None:
    with pytest.raises(ValueError, match="at least 2 tokens, got 1"):
        TextExamples([7], 16)
