"""Encoder, decoder and both together: visible tokens, tied weights, state dicts, watching, precisions."""

import pytest
import torch

import regard
from regard.models import Decoder, DecoderConfig
from support.small_models import VARIANTS, decoder, encoder, recurrent, seq2seq, tokens

every_variant = pytest.mark.parametrize("changes", VARIANTS.values(), ids=VARIANTS)
both_networks = pytest.mark.parametrize("attention", [False, True], ids=["without attention", "with"])


@every_variant
def test_a_decoder_never_sees_the_future(changes) -> None:
    model = decoder(**changes).double()
    text = tokens(2, 12)
    changed = text.clone()
    changed[:, 7:] = (changed[:, 7:] + 5) % 30
    before, after = model(text), model(changed)
    torch.testing.assert_close(after[:, :7], before[:, :7], rtol=0, atol=1e-12)
    assert (after[:, 7:] - before[:, 7:]).abs().max() > 1e-3


@every_variant
def test_the_gradient_of_the_future_is_exactly_zero(changes) -> None:
    model = decoder(**changes).double()
    places = []
    model.embedding.register_forward_hook(lambda module, given, out: places.append(out.requires_grad_()))
    model.requires_grad_(False)
    scores = model(tokens(1, 9))
    (grad,) = torch.autograd.grad(scores[:, 4].pow(2).sum(), places[0])
    assert grad[:, 5:].abs().max() == 0
    assert (grad[:, :5].abs().amax(-1) > 0).all()


@every_variant
def test_an_encoder_attends_in_both_directions_but_not_to_padding(changes) -> None:
    model = encoder(**changes).double()
    text, lengths = tokens(3, 9), torch.tensor([9, 4, 1])
    states = model(text, lengths)
    assert (states[0, 0] - model(text[:1, :8])[0, 0]).abs().max() > 1e-6  # the first sees the last
    for row, length in enumerate(lengths.tolist()):
        alone = model(text[row : row + 1, :length])
        torch.testing.assert_close(states[row, :length], alone[0], rtol=0, atol=1e-11)
    scores = model.logits(text, lengths)
    assert scores.shape == (3, 9, 40)
    torch.testing.assert_close(scores[1, :4], model.logits(text[1:2, :4])[0], rtol=0, atol=1e-11)


@every_variant
def test_padding_changes_nothing_in_seq2seq(changes) -> None:
    model = seq2seq(**changes).double()
    source, target = tokens(3, 8), tokens(3, 6, seed=1)
    source_lengths, target_lengths = torch.tensor([8, 2, 5]), torch.tensor([6, 1, 3])
    together = model(source, target, source_lengths, target_lengths)
    for row in range(3):
        s, t = source[row : row + 1, : source_lengths[row]], target[row : row + 1, : target_lengths[row]]
        torch.testing.assert_close(together[row : row + 1, : t.shape[1]], model(s, t), rtol=0, atol=1e-11)


@both_networks
def test_padding_changes_nothing_in_the_recurrent_network(attention) -> None:
    model = recurrent(attention=attention).double()
    source, target = tokens(3, 8), tokens(3, 6, seed=1)
    source_lengths, target_lengths = torch.tensor([8, 2, 5]), torch.tensor([6, 1, 3])
    together = model(source, target, source_lengths, target_lengths)
    for row in range(3):
        s, t = source[row : row + 1, : source_lengths[row]], target[row : row + 1, : target_lengths[row]]
        torch.testing.assert_close(together[row : row + 1, : t.shape[1]], model(s, t), rtol=0, atol=1e-11)


def test_additive_attention_equals_the_published_formula() -> None:
    model = recurrent(attention=True, layers=1).double()
    source, target, lengths = tokens(2, 7), tokens(2, 4, seed=1), torch.tensor([7, 3])
    scores, weights = model(source, target, lengths, weights=True)
    assert weights.shape == (2, 4, 7)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 4, dtype=torch.float64))
    assert weights[1, :, 3:].abs().max() == 0
    memory, part = model.encode(source, lengths), model.additive
    raw = torch.stack(
        [
            torch.stack(
                [
                    part.score.weight[0]
                    @ torch.tanh(part.query.weight @ memory.hidden[-1, b] + part.query.bias + part.key.weight @ h)
                    for h in memory.states[b]
                ]
            )
            for b in range(2)
        ]
    )
    raw[1, 3:] = float("-inf")
    torch.testing.assert_close(weights[:, 0], raw.softmax(-1), rtol=0, atol=1e-12)
    torch.testing.assert_close(model(source, target, lengths), scores)


@both_networks
def test_the_recurrent_network_never_sees_the_targets_future(attention) -> None:
    model = recurrent(attention=attention).double()
    source, target = tokens(1, 5), tokens(1, 8, seed=1)
    changed = target.clone()
    changed[:, 5:] += 1
    torch.testing.assert_close(model(source, changed)[:, :5], model(source, target)[:, :5], rtol=0, atol=1e-12)


def test_without_attention_there_are_no_weights() -> None:
    with pytest.raises(ValueError, match=r"no attention weights; build it with .*attention=True"):
        recurrent(attention=False)(tokens(1, 3), tokens(1, 2), weights=True)


@pytest.mark.parametrize("build", [decoder, encoder, seq2seq, lambda **c: recurrent(attention=True, **c)])
def test_tied_weights_are_one_parameter(build) -> None:
    tied, untied = build(), build(tied=False)
    counts = [sum(p.numel() for p in model.parameters()) for model in (tied, untied)]
    assert counts[1] - counts[0] == 40 * 32
    assert "head.weight" not in tied.state_dict()
    assert tied.table is dict(tied.named_parameters())[next(n for n, p in tied.named_parameters() if p is tied.table)]


def test_the_names_in_a_state_dict_are_stable() -> None:
    """A file written today must load tomorrow."""
    one = {"d_model": 8, "heads": 2, "layers": 1, "positions": "learned"}
    parts = ["attention.qkv", "attention.out", "attention_norm", "feed.up", "feed.down", "feed_norm"]
    layer = [f"{part}.{kind}" for part in parts for kind in ("weight", "bias")]
    assert sorted(decoder(norm="pre", tied=False, **one).state_dict()) == sorted(
        ["embedding.weight", "embedding.places.weight", "norm.weight", "norm.bias", "head.weight"]
        + [f"layers.0.{name}" for name in layer]
    )
    assert sorted(encoder(**one).state_dict()) == sorted(
        ["embedding.weight", "embedding.places.weight", "guess.bias"]
        + [f"guess.{part}.{kind}" for part in ("dense", "norm") for kind in ("weight", "bias")]
        + [f"layers.0.{name}" for name in layer]
    )
    cross = [f"{part}.{kind}" for part in ("cross.qkv", "cross.out", "cross_norm") for kind in ("weight", "bias")]
    assert sorted(seq2seq(**one).state_dict()) == sorted(
        [f"{half}.embedding.{name}" for half in ("encoder", "decoder") for name in ("weight", "places.weight")]
        + [f"encoder.layers.0.{name}" for name in layer]
        + [f"decoder.layers.0.{name}" for name in layer + cross]
    )


@every_variant
def test_watch_names_every_layer(changes) -> None:
    model = seq2seq(**changes)
    with torch.no_grad(), regard.watch(model) as seen:
        model(tokens(2, 7), tokens(2, 5), torch.tensor([7, 4]))
    assert [(call.name, *call.shape[2:]) for call in seen.calls] == [
        ("encoder.layers.0.attention", 7, 7),
        ("encoder.layers.1.attention", 7, 7),
        ("decoder.layers.0.attention", 5, 5),
        ("decoder.layers.0.cross", 5, 7),
        ("decoder.layers.1.attention", 5, 5),
        ("decoder.layers.1.cross", 5, 7),
    ]
    for build, length in ((decoder, 6), (encoder, 6)):
        model = build(**changes)
        with torch.no_grad(), regard.watch(model) as seen:
            model(tokens(1, length))
        assert [call.name for call in seen.calls] == ["layers.0.attention", "layers.1.attention"]


def test_watch_sees_the_steps_of_generation_too() -> None:
    model = decoder()
    with regard.watch(model, keep="copies") as seen:
        written = regard.models.generate(model, tokens(1, 4), new_tokens=3)[0]
    last = [call for call in seen.calls if call.name == "layers.1.attention"]
    assert [call.shape[2:] for call in last] == [(4, 4), (1, 5), (1, 6)]
    with torch.no_grad(), regard.watch(model) as whole:
        model(torch.cat((tokens(1, 4), written[None, :2]), 1))
    torch.testing.assert_close(last[2].weights()[..., 0, :], whole.calls[1].weights()[..., 5, :], rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@every_variant
def test_other_precisions(changes, dtype) -> None:
    model = decoder(**changes)
    text = tokens(2, 9)
    expected = model(text)
    found = model.to(dtype)(text)
    assert found.dtype == dtype
    if dtype == torch.float64:
        torch.testing.assert_close(found.float(), expected, rtol=0, atol=2e-5)
    else:
        assert (found.float() - expected).abs().mean() < 0.05 * expected.abs().mean()
    loss = model.loss(text[:, :-1], text[:, 1:])
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_under_autocast() -> None:
    model, text = decoder(), tokens(2, 9)
    with torch.autocast("cpu", torch.bfloat16):
        loss = model.loss(text[:, :-1], text[:, 1:])
    loss.backward()
    plain = model.loss(text[:, :-1], text[:, 1:])
    torch.testing.assert_close(loss, plain, rtol=0.03, atol=0.03)


BAD = {
    "floats": (
        TypeError,
        torch.zeros(1, 3),
        {},
        r"tokens must be a tensor of whole numbers \(B, L\), got torch.float32",
    ),
    "one row": (ValueError, torch.zeros(3, dtype=torch.int64), {}, r"shape \(B, L\), got \(3,\); use tokens\[None\]"),
    "too many": (ValueError, torch.zeros(1, 161, dtype=torch.int64), {}, "161 tokens exceed the context of 160"),
    "unknown": (ValueError, torch.tensor([[1, 99]]), {}, "must be in 0 … 39, the vocabulary .*; got ids in 1 … 99"),
    "negative": (ValueError, torch.tensor([[-1]]), {}, "token ids must be in 0 … 39"),
    "lengths": (ValueError, torch.zeros(2, 3, dtype=torch.int64), {"lengths": torch.tensor([4, 1])}, "in 0 … 3"),
    "shape": (ValueError, torch.zeros(2, 3, dtype=torch.int64), {"lengths": torch.tensor([3])}, r"of shape \(2,\)"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("build", [decoder, encoder])
def test_invalid_tokens_are_rejected(build, case) -> None:
    error, given, options, message = BAD[case]
    with pytest.raises(error, match=message):
        build()(given, **options)


@pytest.mark.usefixtures("unchecked")
def test_source_and_target_of_different_batches() -> None:
    with pytest.raises(ValueError, match="source and target must have the same number of rows, got 2 and 3"):
        seq2seq()(tokens(2, 4), tokens(3, 4))
    with pytest.raises(ValueError, match="every row of source needs at least one token"):
        recurrent(attention=True)(tokens(2, 4), tokens(2, 4), torch.tensor([0, 4]))


def test_a_small_decoder_learns() -> None:
    """Ten steps on one batch must take the loss well below chance: the gradient points downhill everywhere."""
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(20, d_model=32, heads=4, layers=2, dropout=0.0))
    text = tokens(4, 17, vocabulary=20)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = model.loss(text[:, :-1], text[:, 1:])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert abs(losses[0] - torch.tensor(20.0).log()) < 1.5
    assert losses[-1] < 0.5 * losses[0]
