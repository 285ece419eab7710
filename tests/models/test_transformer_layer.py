"""A layer computes what torch's own layer computes, and the options do what they say."""

import pytest
import torch
from torch import nn

from regard import masks
from regard.models import DecoderConfig, Layer, from_torch
from regard.models.transformer.feedforward import FeedForward

D, H, F = 24, 3, 40
LENGTHS = torch.tensor([7, 3])


def lively(layer: nn.Module) -> nn.Module:
    """torch starts biases at 0 and norms at 1, which would hide that they are not copied."""
    with torch.no_grad():
        for value in layer.parameters():
            if value.dim() == 1:
                value.add_(torch.randn_like(value), alpha=0.3)
    return layer


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu", nn.GELU(approximate="tanh")])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [False, True])
def test_equal_to_torchs_encoder_layer(norm_first, activation, bias, causal) -> None:
    torch.manual_seed(0)
    options = {"norm_first": norm_first, "bias": bias, "dtype": torch.float64, "batch_first": True}
    theirs = lively(nn.TransformerEncoderLayer(D, H, F, activation=activation, **options)).train()
    for part in theirs.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    theirs.self_attn.dropout = 0.0  # in training mode, so that torch takes no fast path of its own
    ours = from_torch(theirs, causal=causal)
    x = torch.randn(2, 7, D, dtype=torch.float64, requires_grad=True)
    hidden = torch.arange(7) >= LENGTHS[:, None]
    future = nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64) if causal else None
    padded = torch.zeros(2, 7, dtype=torch.float64).masked_fill(hidden, float("-inf"))
    expected = theirs(x, src_mask=future, src_key_padding_mask=padded)
    found = ours(x, mask=masks.padding(LENGTHS))
    torch.testing.assert_close(found[~hidden], expected[~hidden], rtol=0, atol=1e-11)
    (g1,) = torch.autograd.grad(expected[~hidden].pow(2).sum(), x)
    (g2,) = torch.autograd.grad(found[~hidden].pow(2).sum(), x)
    torch.testing.assert_close(g2, g1, rtol=0, atol=1e-10)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_equal_to_torchs_decoder_layer(norm_first, activation) -> None:
    torch.manual_seed(0)
    options = {"norm_first": norm_first, "dtype": torch.float64, "batch_first": True}
    theirs = lively(nn.TransformerDecoderLayer(D, H, F, activation=activation, **options)).eval()
    ours = from_torch(theirs)
    x, source = torch.randn(2, 5, D, dtype=torch.float64), torch.randn(2, 7, D, dtype=torch.float64)
    hidden = torch.arange(7) >= LENGTHS[:, None]
    expected = theirs(
        x,
        source,
        tgt_mask=nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64),
        memory_key_padding_mask=torch.zeros(2, 7, dtype=torch.float64).masked_fill(hidden, float("-inf")),
    )
    found = ours(x, source=source, source_mask=masks.padding(LENGTHS))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)
    known = ours.cross.project_context(source)  # what decoding does: the same from keys and values known before
    torch.testing.assert_close(ours(x, source=known, source_mask=masks.padding(LENGTHS)), found, rtol=0, atol=1e-12)


def test_from_torch_copies_the_options_of_the_layer() -> None:
    theirs = nn.TransformerEncoderLayer(D, H, F, dropout=0.25, norm_first=True, layer_norm_eps=1e-3)
    ours = from_torch(theirs)
    assert (ours.dropout, ours.attention.dropout, ours.pre) == (0.25, 0.25, True)
    assert ours.feed_norm.eps == 1e-3
    assert ours.training
    assert not from_torch(theirs.eval()).training


@pytest.mark.usefixtures("unchecked")
def test_from_torch_rejects_unsupported_layers() -> None:
    with pytest.raises(TypeError, match=r"takes nn\.TransformerEncoderLayer or .*, got Linear"):
        from_torch(nn.Linear(2, 2))
    with pytest.raises(ValueError, match="the activation must be ReLU or GELU"):
        from_torch(nn.TransformerEncoderLayer(D, H, F, activation=torch.tanh))


def test_swiglu_is_silu_of_the_gate_times_the_other_half() -> None:
    part = FeedForward(6, 10, "swiglu").double()
    x = torch.randn(4, 6, dtype=torch.float64)
    gate, up = (x @ w.T + b for w, b in zip(part.up.weight.split(10), part.up.bias.split(10), strict=True))
    expected = (gate * torch.sigmoid(gate) * up) @ part.down.weight.T + part.down.bias
    torch.testing.assert_close(part(x), expected, rtol=0, atol=1e-12)


def test_the_tensor_that_a_hook_receives_is_not_overwritten() -> None:
    part, seen = FeedForward(6, 10, "relu"), []
    part.up.register_forward_hook(lambda module, given, out: seen.append(out))
    x = torch.randn(50, 6)
    part(x)
    torch.testing.assert_close(seen[0], x @ part.up.weight.T + part.up.bias)


@pytest.mark.parametrize("normalisation", ["layer", "rms"])
def test_pre_norm_with_zero_outputs_is_the_identity(normalisation) -> None:
    layer = Layer(DecoderConfig(1, d_model=D, heads=H, norm="pre", normalisation=normalisation, dropout=0.0))
    for last in (layer.attention.out, layer.feed.down):
        nn.init.zeros_(last.weight)
    x = torch.randn(2, 5, D)
    assert torch.equal(layer(x), x)


def test_dropout_acts_in_training_only() -> None:
    layer = Layer(DecoderConfig(1, d_model=D, heads=H, dropout=0.5))
    x = torch.randn(2, 5, D)
    assert not torch.equal(layer(x), layer(x))
    layer.eval()
    assert torch.equal(layer(x), layer(x))


def test_a_dropout_of_p_drops_that_share_of_what_a_part_adds() -> None:
    layer = Layer(DecoderConfig(1, d_model=200, heads=2, dropout=0.3, norm="pre"))
    nn.init.zeros_(layer.feed.down.weight)
    nn.init.ones_(layer.feed.down.bias)
    nn.init.zeros_(layer.attention.out.weight)
    x = torch.zeros(1, 500, 200)
    added = layer(x).unique()
    torch.testing.assert_close(added, torch.tensor([0.0, 1 / 0.7]))
    assert abs(float((layer(x) == 0).float().mean()) - 0.3) < 0.01
