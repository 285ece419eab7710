"""The loss in chunks and its gradients equal torch's."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from regard.models import cross_entropy
from regard.models.transformer import loss
from support.small_models import decoder, encoder, recurrent, seq2seq, tokens


def made(rows, width, words, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(rows, width, generator=generator, dtype=dtype).requires_grad_()
    table = torch.randn(words, width, generator=generator, dtype=dtype).requires_grad_()
    bias = torch.randn(words, generator=generator, dtype=dtype).requires_grad_()
    return states, table, bias, torch.randint(words, (rows,), generator=generator)


@given(
    rows=st.integers(1, 300),
    words=st.integers(1, 50),
    biased=st.booleans(),
    smoothing=st.sampled_from([0.0, 0.1]),
    ignored=st.integers(0, 5),
    reduction=st.sampled_from(["mean", "sum"]),
    at_once=st.sampled_from([1, 3000, 1 << 21]),
)
def test_equal_to_torch(rows, words, biased, smoothing, ignored, reduction, at_once) -> None:
    states, table, bias, targets = made(rows, 7, words)
    targets[: min(ignored, rows - 1)] = -100
    scores = F.linear(states, table, bias if biased else None)
    expected = F.cross_entropy(scores, targets, label_smoothing=smoothing, reduction=reduction)
    size, loss.BUFFER_SIZE = loss.BUFFER_SIZE, at_once
    try:
        found = cross_entropy(
            states, table, targets, bias=bias if biased else None, smoothing=smoothing, reduction=reduction
        )
    finally:
        loss.BUFFER_SIZE = size
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    wanted = [states, table] + [bias] * biased
    theirs, ours = torch.autograd.grad(expected * 3, wanted), torch.autograd.grad(found * 3, wanted)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


def test_huge_scores_neither_overflow_nor_vanish() -> None:
    states, table = torch.tensor([[1000.0], [-1000.0]]).requires_grad_(), torch.tensor([[1.0], [-1.0], [0.0]])
    found = cross_entropy(states, table, torch.tensor([1, 2]))
    torch.testing.assert_close(found, torch.tensor(1500.0))
    found.backward()
    torch.testing.assert_close(states.grad, torch.tensor([[1.0], [-0.5]]))


def test_the_loss_is_zero_if_all_targets_are_ignored() -> None:
    states, table, _, _ = made(3, 4, 5)
    found = cross_entropy(states, table, torch.full((3,), -100))
    found.backward()
    assert found == 0
    assert states.grad.abs().max() == 0


def test_with_no_gradients_and_with_some_of_them() -> None:
    states, table, _, targets = made(200, 6, 30)
    with torch.no_grad():
        plain = cross_entropy(states, table, targets)
    full = cross_entropy(states, table, targets)
    torch.testing.assert_close(plain, full.detach())
    (alone,) = torch.autograd.grad(cross_entropy(states, table.detach(), targets), states)
    torch.testing.assert_close(alone, torch.autograd.grad(full, states)[0])


def test_backward_twice_through_the_same_graph() -> None:
    states, table, _, targets = made(20, 6, 30)
    found = cross_entropy(states, table, targets)
    found.backward(retain_graph=True)
    once = table.grad.clone()
    found.backward()
    torch.testing.assert_close(table.grad, 2 * once)


def test_half_precision_is_summed_in_float32() -> None:
    states, table, _, targets = made(500, 16, 100, torch.bfloat16)
    found = cross_entropy(states, table, targets)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, F.cross_entropy((states @ table.T).float(), targets))


def test_gradients_by_torch_func() -> None:
    states, table, _, targets = made(20, 6, 30)
    found = torch.func.grad(lambda s: cross_entropy(s, table.detach(), targets))(states.detach())
    torch.testing.assert_close(found, torch.autograd.grad(cross_entropy(states, table, targets), states)[0])


def test_the_losses_of_the_models_are_those_of_their_scores() -> None:
    text, source = tokens(3, 9), tokens(3, 6, seed=1)
    given, targets = text[:, :-1], text[:, 1:].clone()
    targets[0, 3:] = -100

    def plain(scores):
        return F.cross_entropy(scores.flatten(0, 1), targets.flatten())

    model = decoder().double()
    torch.testing.assert_close(model.loss(given, targets), plain(model(given)))
    lengths = torch.tensor([6, 2, 4])
    for model in (seq2seq().double(), recurrent(attention=True).double(), recurrent(attention=False).double()):
        torch.testing.assert_close(model.loss(source, given, targets, lengths), plain(model(source, given, lengths)))
    model = encoder().double()
    torch.testing.assert_close(model.loss(given, targets), plain(model.logits(given)))
    torch.testing.assert_close(
        model.loss(given, targets, smoothing=0.1),
        F.cross_entropy(model.logits(given).flatten(0, 1), targets.flatten(), label_smoothing=0.1),
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("targets", "options", "message"),
    [
        (torch.tensor([1, 9]), {}, "targets must be in 0 … 4 or equal `ignore`, got 1 … 9"),
        (torch.tensor([1, -1]), {}, "got -1 … 1"),
        (torch.tensor([1, 2, 3]), {}, r"need one target each, .* got \(2, 3\) and \(3,\)"),
        (torch.tensor([1, 2]), {"smoothing": 1.0}, "smoothing must be at least 0 and less than 1"),
        (torch.tensor([1, 2]), {"reduction": "none"}, "reduction must be 'mean' or 'sum'"),
    ],
)
def test_invalid_arguments_are_rejected(targets, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        cross_entropy(torch.zeros(2, 3), torch.zeros(5, 3), targets, **options)
