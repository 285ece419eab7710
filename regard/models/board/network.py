"""Board network: residual convolutions with attention between them, a policy over columns and a value.

    stem     relu(norm(conv3×3(planes)))                      (B, P, rows, columns) → (B, C, rows, columns)
    block    relu(x + norm(conv3×3(relu(norm(conv3×3(x))))))  `layers` times
             x + attention(norm(x)) over all squares          after every `attn_every` blocks
    policy   a number for each column, from its squares       (B, columns)
             and from the whole board
    value    tanh of a number from all squares                (B, 1), in [−1, 1]

The weights do not depend on the size of the board, except for the opening table, which is added to the value and is 0
on boards of another size (opening_table.py). No plane marks the edge: the zeros around a board look like empty squares
to the first convolution only; after it an empty square holds that convolution's bias, and the padding does not.

All tensors are in torch's channels-last format, in which attention needs no copy and convolutions are faster. On a CPU
the convolutions use Winograd's algorithm, with a third of the multiplications (winograd.py).
"""

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.types import Device

from regard.attention import check_heads
from regard.models.board.attention_block import BoardAttention
from regard.models.board.config import BoardConfig
from regard.models.board.convolution import BoardConv
from regard.models.board.input_planes import ADDED_PLANES, LinePlanes
from regard.models.board.norm import BatchNorm, build_norm, fold_after, fold_before
from regard.models.board.opening_table import OpeningTable
from regard.models.transformer.layer import reset_children


class BoardOutput(NamedTuple):
    """Output of a board network for B positions.

    policy      logits of the columns
    value       in [−1, 1], for the side to move
    score       predicted score; None unless the configuration has one

    >>> BoardNet("tiny")(torch.zeros(5, 2, 6, 7)).policy.shape
    torch.Size([5, 7])
    """

    policy: Float[Tensor, "b columns"]
    value: Float[Tensor, "b 1"]
    score: Float[Tensor, "b _"] | None = None


class Unit(nn.Module):
    """relu(norm(conv3×3(x)) + residual)."""

    def __init__(self, inputs: int, config: BoardConfig, **factory: Any) -> None:
        super().__init__()
        self.conv = BoardConv(inputs, config.channels, bias=config.norm == "none", **factory)
        self.norm = build_norm(config.norm, config.channels, **factory)
        self._reset_filters()

    def reset_parameters(self) -> None:
        """Initialise filters with He's normal distribution, the bias with 0, the norm by its own rule."""
        reset_children(self)
        self._reset_filters()

    def _reset_filters(self) -> None:
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu")
        if self.conv.bias is not None:
            nn.init.zeros_(self.conv.bias)

    def forward(self, x: Tensor, residual: Tensor | None = None) -> Tensor:
        if isinstance(self.norm, nn.Identity):
            return self.conv(x, residual, relu=True)
        y: Tensor = self.norm(self.conv(x))
        return (y if residual is None else y.add_(residual)).relu_()


class Block(nn.Module):
    """relu(x + norm(conv3×3(relu(norm(conv3×3(x))))))."""

    def __init__(self, config: BoardConfig, **factory: Any) -> None:
        super().__init__()
        self.first, self.second = (Unit(config.channels, config, **factory) for _ in range(2))

    def reset_parameters(self) -> None:
        """Initialise both convolutions and their norms."""
        reset_children(self)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x), x)


class OutputHead(nn.Module):
    """Reduce the channels, take mean and maximum over squares, apply a hidden layer.

    columns     True: outputs for each column, from its squares and the whole board; False: outputs for the board
    outputs     number of outputs

    The same weights apply to every column, so they fit boards of any size. The last layer starts small: an untrained
    network gives all moves about the same probability and positions a value near 0.
    """

    def __init__(self, config: BoardConfig, *, columns: bool, outputs: int, **factory: Any) -> None:
        super().__init__()
        self.columns = columns
        self.reduce = nn.Conv2d(config.channels, config.head_channels, 1, bias=config.norm == "none", **factory)
        self.norm = build_norm(config.norm, config.head_channels, **factory)
        self.hidden = nn.Linear((4 if columns else 2) * config.head_channels, config.value_hidden, **factory)
        self.answer = nn.Linear(config.value_hidden, outputs, **factory)
        self._shrink_answer()

    def reset_parameters(self) -> None:
        """Initialise every layer as torch does, then make the last one small."""
        reset_children(self)
        self._shrink_answer()

    @torch.no_grad()
    def _shrink_answer(self) -> None:
        self.answer.weight.mul_(0.1)
        self.answer.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, columns, outputs) or (B, outputs)."""
        x = self.norm(self.reduce(x)).relu_()
        pooled = torch.cat((x.mean((2, 3)), x.amax((2, 3))), 1)  # (B, 2·channels)
        if self.columns:
            whole = pooled[:, :, None].expand(-1, -1, x.shape[3])
            pooled = torch.cat((x.mean(2), x.amax(2), whole), 1).movedim(1, -1)  # (B, columns, 4·channels)
        return self.answer(self.hidden(pooled).relu_())


class BoardNet(nn.Module):
    """Planes (B, P, rows, columns) → policy logits (B, columns) and value (B, 1), for a board of any size.

    preset      "high", "balanced", "light", "small" or "tiny" (see the table in config.py), or a BoardConfig
    device, dtype   of the parameters, as in every layer of torch
    changes     fields of BoardConfig that replace those of the preset

    >>> net = BoardNet("tiny").eval()
    >>> policy, value, _ = net(torch.zeros(3, 2, 6, 7))
    >>> policy.shape, value.shape
    (torch.Size([3, 7]), torch.Size([3, 1]))
    >>> net(torch.zeros(1, 2, 8, 9)).policy.shape                   # the same weights, a larger board
    torch.Size([1, 9])
    >>> BoardNet("light", channels=128, heads=24)
    Traceback (most recent call last):
    ValueError: heads must divide the channels, got 24 heads for 128 channels; the nearest counts that do are
    16 (d_k = 8) and 32 (d_k = 4)
    """

    def __init__(
        self, preset: str | BoardConfig = "light", *, device: Device = None, dtype: torch.dtype | None = None,
        **changes: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        factory: dict[str, Any] = {"device": device, "dtype": dtype}
        if isinstance(preset, str):
            config = BoardConfig.preset(preset, **changes)
        elif isinstance(preset, BoardConfig):
            config = replace(preset, **changes)
        else:
            raise TypeError(f"BoardNet takes the name of a preset or a BoardConfig, got {type(preset).__name__}")
        self.config = config
        self.previous_heads, self.blend = config.heads, 1.0
        self.line_planes = nn.Identity() if config.lines is None else LinePlanes(config.lines, **factory)
        self.stem = Unit(config.planes + (0 if config.lines is None else ADDED_PLANES), config, **factory)
        self.blocks = nn.ModuleList(Block(config, **factory) for _ in range(config.layers))
        self.attention = nn.ModuleList(
            BoardAttention(config.channels, config.heads, tuple(config.sees), config.norm, config.bias, **factory)
            for _ in range(config.attentions)
        )
        self.policy = OutputHead(config, columns=True, outputs=2 if config.score == "columns" else 1, **factory)
        self.value = OutputHead(config, columns=False, outputs=2 if config.score == "position" else 1, **factory)
        self.opening_table = None
        if config.opening_table:
            rows, columns, stones = config.opening_table
            self.opening_table = OpeningTable(
                rows, columns, stones, config.opening_table_bits, config.opening_table_taught, **factory
            )
        self._set_memory_format()
        self.register_load_state_dict_post_hook(_after_loading)  # type: ignore[no-untyped-call]

    def reset_parameters(self) -> None:
        """Initialise all parameters as the constructor does."""
        reset_children(self)
        self._set_memory_format()

    def forward(
        self, planes: Float[Tensor, "b p rows columns"], legal: Bool[Tensor, "b columns"] | None = None
    ) -> BoardOutput:
        """Return policy logits (B, columns), value (B, 1) in [−1, 1] and, if the network has one, the score.

        legal       (B, columns), which columns may be played; the logits of the others become −inf
        """
        self._check_input(planes, legal)
        x = self.stem(self.line_planes(planes).contiguous(memory_format=torch.channels_last))
        for number, block in enumerate(self.blocks, 1):
            x = block(x)
            if self.config.attn_every and number % self.config.attn_every == 0:
                x = self.attention[number // self.config.attn_every - 1](x)
        output = self.output(self.policy(x), self.value(x), planes)
        return output if legal is None else output._replace(policy=output.policy.masked_fill(~legal, float("-inf")))

    def output(self, columns: Tensor, whole: Tensor, planes: Tensor) -> BoardOutput:
        """Return the output from those of the two heads, (B, columns, 1 or 2) and (B, 1 or 2), and the planes."""
        score = {"none": None, "position": whole[:, 1:], "columns": columns[..., -1]}[self.config.score]
        value = whole[:, :1] if self.opening_table is None else whole[:, :1] + self.opening_table(planes)
        return BoardOutput(columns[..., 0], value.tanh(), score)

    def for_inference(self) -> "BoardNet":
        """Return a copy that computes the same as this network in eval mode, faster: batch norms are folded.

        The copy is a BoardNet with norm="none" and can be saved. Group norms depend on the input and stay. A network
        with changed parts, such as a subclass, is copied as it is, without folding. The weights of the copy must not be
        changed. torch.compile makes it slower where convolutions use Winograd's algorithm, and
        10 % faster where they do not (fewer than 48 channels).

        >>> net = BoardNet("tiny").eval()
        >>> planes = torch.randn(2, 2, 6, 7)
        >>> torch.allclose(net(planes).policy, net.for_inference()(planes).policy, atol=1e-5)
        True
        """
        folds = self.config.norm == "batch"
        net = BoardNet(replace(self.config, norm="none") if folds else self.config)
        if not _has_parts_of(self, net):
            return copy.deepcopy(self).eval().requires_grad_(False)
        net.to(next(self.parameters()))
        net.load_state_dict(self.state_dict(), strict=not folds)
        if folds:
            _fold_norms(self, net)
        net.set_heads(self.config.heads, before=self.previous_heads, blend=self.blend)
        for module in net.modules():
            if isinstance(module, BoardConv):
                module.cache_filters()
        return net.eval().requires_grad_(False)

    def set_heads(self, heads: int, *, before: int | None = None, blend: float = 1.0) -> None:
        """Change the number of heads of every attention layer; the weights stay as they are.

            attention(x) = (1 − blend) · attention(x, with `before` heads) + blend · attention(x, with `heads` heads)

        Splitting or joining heads changes the function, because each head has its own softmax. Therefore the change is
        gradual: at blend 0 the function is that of the previous heads, at 1 that of the new heads, and linear between,
        while the rest of the network continues to learn. `HeadSchedule` does this at given points of training.

        heads       new number of heads; a divisor of the channels and a multiple of the number of attention patterns
        before      previous number of heads; None means the present one
        blend       weight of the new heads, 0 … 1

        A saved network has `heads` heads and blend 1: a schedule must be applied again after loading.
        """
        before = self.config.heads if before is None else before
        for count in (heads, before):
            check_heads(self.config.channels, count)
        if not 0 <= blend <= 1:
            raise ValueError(f"blend must be from 0 to 1, got {blend}")
        self.config = replace(self.config, heads=heads)
        self.previous_heads, self.blend = before, blend
        for layer in self.attention:
            assert isinstance(layer, BoardAttention)
            layer.set_heads(heads, before, blend)

    def _set_memory_format(self) -> None:
        for module in self.modules():
            if isinstance(module, BoardConv) and module.cached_filters is not None:
                module.cache_filters()  # new weights have been loaded, so cached filters are outdated
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks this form

    def _check_input(self, planes: Tensor, legal: Tensor | None) -> None:
        if planes.dim() != 4 or planes.shape[1] != self.config.planes:
            raise ValueError(
                f"BoardNet takes planes of shape (B, {self.config.planes}, rows, columns), got {tuple(planes.shape)}; "
                "one position needs planes[None]"
            )
        if not planes.dtype.is_floating_point:
            raise TypeError(f"planes must be floating point numbers, got {planes.dtype}; convert with .float()")
        if legal is not None and (legal.dtype != torch.bool or legal.shape != (len(planes), planes.shape[-1])):
            raise ValueError(
                f"legal must be booleans of shape ({len(planes)}, {planes.shape[-1]}), one for each column, "
                f"got {legal.dtype} of shape {tuple(legal.shape)}"
            )


def _has_parts_of(net: BoardNet, plain: BoardNet) -> bool:
    """Return whether `net` has the parts of `plain`, except for norms, and nothing is changed or added."""
    norms = BatchNorm | nn.GroupNorm | nn.Identity
    parts: dict[str, nn.Module] = dict(net.named_modules())
    expected: dict[str, nn.Module] = dict(plain.named_modules())
    changed: list[Any] = []
    for name, part in parts.items():
        other = expected.get(name)
        both_norms = isinstance(part, norms) and isinstance(other, norms)
        changed.append(type(part) is not type(other) and not both_norms)
        changed.append("forward" in vars(part) or part._forward_hooks or part._forward_pre_hooks)
    return not any(changed) and len(parts) == len(expected)


def _after_loading(net: BoardNet, _: Any) -> None:
    """Restore the memory format of loaded weights; a function of this module, because pickle has no lambda."""
    net._set_memory_format()


@torch.no_grad()
def _fold_norms(net: BoardNet, target: BoardNet) -> None:
    """Fold the batch norms of `net` into the convolutions of `target`, which already has all other weights."""
    folded = dict(target.named_modules())
    for name, module in net.named_modules():
        part: Any = folded.get(name)
        source: Any = module
        if isinstance(module, Unit):
            fold_after(part.conv, source.conv, source.norm)
        elif isinstance(module, OutputHead):
            fold_after(part.reduce, source.reduce, source.norm)
        elif isinstance(module, BoardAttention):
            fold_before(part.squares.qkv, source.norm, source.squares.qkv)
