"""A trained board network made deeper, or given a memory: what is new does nothing at first, so no training is lost."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from regard.models.board.attention import BoardAttention
from regard.models.board.network import Block, BoardNet, Unit


def deepen(net: BoardNet, layers: int) -> BoardNet:
    """A network with more blocks, and the attention that goes with them, which computes exactly the same at first.

    The new blocks come last. A block adds something to x and cuts below 0: the last norm of a new one is 0, and x,
    which comes from a block, is not below 0.

    >>> net = BoardNet("tiny", layers=3, attn_every=2).eval()
    >>> deeper = deepen(net, 6).eval()
    >>> planes = torch.randn(2, 2, 6, 7)
    >>> torch.equal(net(planes).policy, deeper(planes).policy), deeper.config.attentions
    (True, 3)
    """
    config = net.config
    if layers < config.layers:
        raise ValueError(f"a network of {config.layers} layers can be made deeper, got {layers} layers")
    if config.attn_every and config.layers % config.attn_every == 0 and layers > config.layers:
        raise ValueError(
            f"this network ends with attention ({config.layers} layers, attention after every {config.attn_every}): "
            "another block after that would change what it computes; take one that ends with a block, or begin anew"
        )
    deeper = BoardNet(replace(config, layers=layers))
    deeper.to(next(net.parameters()))
    deeper.load_state_dict(net.state_dict(), strict=False)
    with torch.no_grad():
        for block in deeper.blocks[config.layers :]:
            assert isinstance(block, Block)
            _silence(block.second)
        for layer in deeper.attention[config.attentions :]:
            assert isinstance(layer, BoardAttention)
            for parameter in layer.squares.out.parameters():
                parameter.zero_()
    deeper.set_heads(config.heads, before=net.previous_heads, blend=net.blend)
    return deeper.train(net.training)


def with_opening_table(net: BoardNet, size: Sequence[int] = (), bits: int | None = None) -> BoardNet:
    """Return a copy with an empty opening table for `size` = (rows, columns, stones) and 2^bits entries, or with none.

    >>> net = with_opening_table(BoardNet("tiny"), (6, 7, 8), bits=10)
    >>> net.config.opening_table, net.opening_table.table.abs().sum().item(), with_opening_table(net).opening_table
    ((6, 7, 8), 0.0, None)
    """
    bits = net.config.opening_table_bits if bits is None else bits
    config = replace(net.config, opening_table=size, opening_table_bits=bits)
    other = BoardNet(config)
    other.to(next(net.parameters()))
    weights = {name: value for name, value in net.state_dict().items() if not name.startswith("opening_table.")}
    other.load_state_dict({**other.state_dict(), **weights})
    other.set_heads(net.config.heads, before=net.previous_heads, blend=net.blend)
    return other.train(net.training)


def _silence(unit: Unit) -> None:
    last = unit.conv if isinstance(unit.norm, nn.Identity) else unit.norm
    for parameter in last.parameters():
        parameter.zero_()
