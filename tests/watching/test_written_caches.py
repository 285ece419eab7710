"""Caches that write new keys in place: earlier calls stay exact, and are refused where rows that they see changed."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import regard
from regard import models


class Cached(nn.Module):
    """Attention of new tokens over a cache (B, H, places, d) that it writes in one of several ways."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.way = way

    def write(self, cache: Tensor, place: int, new: Tensor) -> None:
        end = place + new.shape[2]
        if self.way == "slice":
            cache[:, :, place:end] = new
        elif self.way == "copy":
            cache[:, :, place:end].copy_(new)
        elif self.way == "narrow":
            cache.narrow(2, place, new.shape[2]).copy_(new)
        elif self.way == "index_copy":
            cache.index_copy_(2, torch.arange(place, end), new)
        else:
            cache[:, :, torch.arange(place, end)] = new

    def forward(self, x: Tensor, place: int, keys: Tensor, values: Tensor) -> Tensor:
        self.write(keys, place, x)
        self.write(values, place, x)
        end = place + x.shape[2]
        return F.scaled_dot_product_attention(x, keys[:, :, :end], values[:, :, :end])


def layered(places: int) -> list[Tensor]:
    """Return keys and values as parts of one tensor for two layers, of which they are the second."""
    return list(torch.zeros(2, 2, 1, 2, places, 4)[1])


LAYOUTS = {
    "heads first": lambda: [torch.zeros(1, 2, 10, 4) for _ in range(2)],
    "tokens first": lambda: [torch.zeros(1, 10, 2, 4).transpose(1, 2) for _ in range(2)],
    "all layers in one tensor": lambda: layered(10),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", ["slice", "copy", "narrow", "index_copy", "indices"])
def test_calls_stay_exact_while_only_later_rows_are_written(way: str, layout: str) -> None:
    keys, values = LAYOUTS[layout]()
    model, place, expected = Cached(way), 0, []
    with torch.no_grad(), regard.watch(model) as seen:
        for count in (3, 1, 1, 2):
            x = torch.randn(1, 2, count, 4)
            model(x, place, keys, values)
            place += count
            expected.append(torch.softmax(x @ keys[:, :, :place].mT / 2, -1))
    for call, weights in zip(seen.calls, expected, strict=True):
        torch.testing.assert_close(call.weights(), weights)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("way", ["slice", "copy", "narrow", "index_copy", "indices"])
def test_weights_are_refused_where_a_row_that_was_seen_is_written(way: str, layout: str) -> None:
    keys, values = LAYOUTS[layout]()
    model = Cached(way)
    with torch.no_grad(), regard.watch(model) as seen:
        model(torch.randn(1, 2, 3, 4), 4, keys, values)
        model(torch.randn(1, 2, 1, 4), 2, keys, values)
    with pytest.raises(RuntimeError, match="changed in place"):
        seen.calls[0].weights()


def test_a_generation_of_our_decoder_is_one_call_per_layer() -> None:
    config = models.DecoderConfig(vocabulary=20, d_model=32, heads=4, layers=2, context=32)
    model = models.Decoder(config).eval()
    with torch.no_grad(), regard.watch(model) as seen:
        tokens = models.generate(model, [[1, 2, 3]], new_tokens=4)[0]
    with torch.no_grad(), regard.watch(model) as whole:
        model(torch.cat([torch.tensor([1, 2, 3]), tokens[:-1]])[None])
    for call, expected in zip(seen.generation().calls, whole.calls, strict=True):
        torch.testing.assert_close(call.weights(), expected.weights())
