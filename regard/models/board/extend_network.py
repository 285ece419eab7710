"""Extend a trained board network by blocks or by an opening table; the new parts have no effect before training."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.models.board.attention_block import BoardAttention
from regard.models.board.config import BoardConfig
from regard.models.board.network import Block, BoardNet


def deepen(net: BoardNet, layers: int) -> BoardNet:
    """Return a copy with more blocks, and attention between them, whose outputs equal those of `net` until training.

    net         the network to copy
    layers      number of blocks of the copy

    The new blocks come last. A block computes relu(x + y): the last norm of a new block is 0, so y = 0, and x, the
    output of a block, is not negative.

    >>> net = BoardNet("tiny", layers=3, attn_every=2).eval()
    >>> deeper = deepen(net, 6).eval()
    >>> planes = torch.randn(2, 2, 6, 7)
    >>> torch.equal(net(planes).policy, deeper(planes).policy), deeper.config.attentions
    (True, 3)
    """
    config = net.config
    if layers < config.layers:
        raise ValueError(f"layers must be at least {config.layers}, the depth of this network, got {layers}")
    if config.attn_every and config.layers % config.attn_every == 0 and layers > config.layers:
        raise ValueError(
            f"this network ends with attention ({config.layers} layers, attention after every {config.attn_every}), so "
            "a further block would change its results; use a network that ends with a block, or train a new one"
        )
    deeper = _copy(net, replace(config, layers=layers), net.state_dict())
    with torch.no_grad():
        for block in deeper.blocks[config.layers :]:
            assert isinstance(block, Block)
            unit = block.second
            _set_to_zero(unit.conv if isinstance(unit.norm, nn.Identity) else unit.norm)
        for layer in deeper.attention[config.attentions :]:
            assert isinstance(layer, BoardAttention)
            _set_to_zero(layer.squares.out)
    return deeper


def with_opening_table(
    net: BoardNet, size: Sequence[int] = (), bits: int | None = None, taught: Tensor | None = None
) -> BoardNet:
    """Return a copy with an opening table of zeros, or without its table.

    net         the network to copy
    size        (rows, columns, stones) of the positions in the table; () removes the table
    bits        the table has 2^bits entries; by default as many as the configuration of `net` says
    taught      set of the positions that the table will be taught (taught_positions.py); None means all positions with
                few stones

    >>> net = with_opening_table(BoardNet("tiny"), (6, 7, 8), bits=10)
    >>> net.config.opening_table, net.opening_table.table.abs().sum().item(), with_opening_table(net).opening_table
    ((6, 7, 8), 0.0, None)
    """
    bits = net.config.opening_table_bits if bits is None else bits
    weights = {name: value for name, value in net.state_dict().items() if not name.startswith("opening_table.")}
    if taught is not None:
        weights["opening_table.taught"] = taught
    config = replace(
        net.config, opening_table=size, opening_table_bits=bits,
        opening_table_taught=0 if taught is None else len(taught),
    )  # fmt: skip
    return _copy(net, config, weights)


def _copy(net: BoardNet, config: BoardConfig, weights: dict[str, Tensor]) -> BoardNet:
    """Return a network of this configuration with these weights; parameters without a weight are initialised."""
    other = BoardNet(config)
    other.to(next(net.parameters()))
    other.load_state_dict({**other.state_dict(), **weights})
    other.set_heads(net.config.heads, before=net.previous_heads, blend=net.blend)
    return other.train(net.training)


def _set_to_zero(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.zero_()
