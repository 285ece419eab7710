"""A trained board network made deeper: new blocks begin as doing nothing, so no training is lost."""

from dataclasses import replace

import torch
from torch import nn

from regard.models.board import Block, BoardNet, Unit
from regard.models.board_attention import BoardAttention


def deepened(net: BoardNet, layers: int) -> BoardNet:
    """A network with more blocks, and the attention that goes with them, which computes exactly the same at first.

    The new blocks come last. A block adds something to x and cuts below 0: the last norm of a new one is 0, and x,
    which comes from a block, is not below 0.

    >>> net = BoardNet("tiny", layers=3, attn_every=2).eval()
    >>> deeper = deepened(net, 6).eval()
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
    deeper.set_heads(config.heads, before=net.heads_before, warmth=net.warmth)
    return deeper.train(net.training)


def _silence(unit: Unit) -> None:
    last = unit.conv if isinstance(unit.norm, nn.Identity) else unit.norm
    for parameter in last.parameters():
        parameter.zero_()
