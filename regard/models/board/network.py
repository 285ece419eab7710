"""The board network: residual convolutions with attention between them, a policy over columns and a value.

    stem     relu(norm(conv3×3(planes)))                      (B, P, rows, columns) → (B, C, rows, columns)
    block    relu(x + norm(conv3×3(relu(norm(conv3×3(x))))))  `layers` times, and
             x + attention(norm(x)), over all squares         after every `attn_every` blocks
    policy   a number for each column, read off its squares   (B, columns)
             and off the whole board
    value    tanh of a number read off all squares            (B, 1), in [−1, 1]

No weight knows the size of the board, but for those of a memory of openings, if there is one: it adds to the value and
is silent on other boards (opening_table.py). Two planes are enough: the zeros around the board look like empty squares
to the first convolution only; from the second on an empty square carries the first one's bias, and the outside does
not.

Everything runs in torch's channels-last format, in which attention needs no copy and convolutions are faster, and on
a CPU the convolutions run in tiles, which takes a third of the multiplications (winograd.py).
"""

from dataclasses import replace
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import check_heads
from regard.models.board.attention import BoardAttention
from regard.models.board.config import BoardConfig
from regard.models.board.convolution import BoardConv
from regard.models.board.input_planes import ADDED, Lines
from regard.models.board.norm import BatchNorm, fold_after, fold_before, norm_of
from regard.models.board.opening_table import OpeningTable
from regard.models.board.output_heads import Reading


class BoardOutput(NamedTuple):
    """What a board network says of B positions; `score` is None unless the configuration asks for it."""

    policy: Float[Tensor, "b columns"]  # logits
    value: Float[Tensor, "b 1"]
    score: Float[Tensor, "b _"] | None = None


class Unit(nn.Module):
    """relu(norm(conv3×3(x)) + rest)."""

    def __init__(self, taken: int, config: BoardConfig) -> None:
        super().__init__()
        self.conv = BoardConv(taken, config.channels, bias=config.norm == "none")
        self.norm = norm_of(config.norm, config.channels)
        nn.init.kaiming_normal_(self.conv.weight, nonlinearity="relu")
        if self.conv.bias is not None:
            nn.init.zeros_(self.conv.bias)

    def forward(self, x: Tensor, rest: Tensor | None = None) -> Tensor:
        if isinstance(self.norm, nn.Identity):
            done: Tensor = self.conv(x, rest, relu=True)
            return done
        found: Tensor = self.norm(self.conv(x))
        return (found if rest is None else found.add_(rest)).relu_()


class Block(nn.Module):
    """relu(x + norm(conv3×3(relu(norm(conv3×3(x))))))."""

    def __init__(self, config: BoardConfig) -> None:
        super().__init__()
        self.first, self.second = Unit(config.channels, config), Unit(config.channels, config)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.second(self.first(x), x)
        return found


class BoardNet(nn.Module):
    """Planes (B, P, rows, columns) → policy logits (B, columns) and value (B, 1), for a board of any size.

    preset      "high", "balanced", "light", "small" or "tiny" (config.py has the table), or a BoardConfig
    changes     to the preset

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

    def __init__(self, preset: str | BoardConfig = "light", **changes: Any) -> None:
        super().__init__()
        if isinstance(preset, str):
            config = BoardConfig.preset(preset, **changes)
        elif isinstance(preset, BoardConfig):
            config = replace(preset, **changes)
        else:
            raise TypeError(f"BoardNet takes the name of a preset or a BoardConfig, got {type(preset).__name__}")
        self.config = config
        self.previous_heads, self.blend = config.heads, 1.0
        self.shown = nn.Identity() if config.lines is None else Lines(config.lines)
        self.stem = Unit(config.planes + (0 if config.lines is None else ADDED), config)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.attention = nn.ModuleList(
            BoardAttention(config.channels, config.heads, tuple(config.sees), config.norm, config.bias)
            for _ in range(config.attentions)
        )
        self.policy = Reading(config, columns=True, answers=2 if config.score == "columns" else 1)
        self.value = Reading(config, columns=False, answers=2 if config.score == "position" else 1)
        self.opening_table = None
        if config.opening_table:
            rows, columns, stones = config.opening_table
            self.opening_table = OpeningTable(rows, columns, stones, config.opening_table_bits)
        self._lay_out()
        self.register_load_state_dict_post_hook(lambda module, _: module._lay_out())  # type: ignore[no-untyped-call]

    def forward(
        self, planes: Float[Tensor, "b p rows columns"], legal: Bool[Tensor, "b columns"] | None = None
    ) -> BoardOutput:
        """Policy logits (B, columns), value (B, 1) in [−1, 1] and, where the network has it, score.

        legal       (B, columns), which columns may be played; the logits of the others become −inf
        """
        self._check(planes, legal)
        x = self.stem(self.shown(planes).contiguous(memory_format=torch.channels_last))
        for number, block in enumerate(self.blocks, 1):
            x = block(x)
            if self.config.attn_every and number % self.config.attn_every == 0:
                x = self.attention[number // self.config.attn_every - 1](x)
        columns, whole = self.policy(x), self.value(x)  # (B, columns, 1 or 2), (B, 1 or 2)
        logits = columns[..., 0]
        if legal is not None:
            logits = logits.masked_fill(~legal, float("-inf"))
        score = {"none": None, "position": whole[:, 1:], "columns": columns[..., -1]}[self.config.score]
        value = whole[:, :1] if self.opening_table is None else whole[:, :1] + self.opening_table(planes)
        return BoardOutput(logits, value.tanh(), score)

    def for_inference(self) -> "BoardNet":
        """A network of its own that computes the same in eval mode, faster: batch norms folded into the convolutions.

        It is a BoardNet with norm="none" and can be saved as such. Group norms depend on the input and stay. Its
        weights are not to be changed any more. torch.compile makes it slower where convolutions run in tiles, and gains
        a tenth where they do not (fewer than 48 channels).

        >>> net = BoardNet("tiny").eval()
        >>> planes = torch.randn(2, 2, 6, 7)
        >>> torch.allclose(net(planes).policy, net.for_inference()(planes).policy, atol=1e-5)
        True
        """
        folds = self.config.norm == "batch"
        net = BoardNet(replace(self.config, norm="none") if folds else self.config)
        net.to(next(self.parameters()))
        with torch.no_grad():
            if folds:
                _fold(self, net)
            else:
                net.load_state_dict(self.state_dict())
        net.set_heads(self.config.heads, before=self.previous_heads, blend=self.blend)
        for module in net.modules():
            if isinstance(module, BoardConv):
                module.keep()
        return net.eval().requires_grad_(False)

    def set_heads(self, heads: int, *, before: int | None = None, blend: float = 1.0) -> None:
        """Read the projections of every attention layer as another number of heads; no weight changes.

            attention(x) = (1 − blend) · attention(x, with `before` heads) + blend · attention(x, with `heads` heads)

        Cutting a head in two, or joining two, cannot leave the function as it was: each part gets a softmax of its own.
        So the change is warmed up: at blend 0 the function is exactly that of before, at 1 that of the new heads, and
        between them it moves in a straight line. The rest of the network goes on learning meanwhile.
        `HeadSchedule` does this at stated points of training.

        heads       the new number; it divides the channels, and is a multiple of the kinds of sight
        before      the old number; the present one unless given
        blend      the share of the new heads, 0 … 1

        A saved network has `heads` heads at blend 1: a schedule that goes on applies itself again.
        """
        before = self.config.heads if before is None else before
        for count in (heads, before):
            check_heads(self.config.channels, count)
        if not 0 <= blend <= 1:
            raise ValueError(f"blend is the share of the new heads, from 0 to 1, got {blend}")
        self.config = replace(self.config, heads=heads)
        self.previous_heads, self.blend = before, blend
        for layer in self.attention:
            assert isinstance(layer, BoardAttention)
            layer.set_heads(heads, before, blend)

    def _lay_out(self) -> None:
        for module in self.modules():
            if isinstance(module, BoardConv) and module.kept is not None:
                module.keep()  # other weights have come: what was kept is no longer theirs
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks this form

    def _check(self, planes: Tensor, legal: Tensor | None) -> None:
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


def _fold(net: BoardNet, into: BoardNet) -> None:
    """Copy the weights of a network with batch norms into one without norms."""
    folded = dict(into.named_modules())
    into.load_state_dict(net.state_dict(), strict=False)
    for name, module in net.named_modules():
        its: Any = folded.get(name)
        if isinstance(module, Unit):
            assert isinstance(module.norm, BatchNorm)
            fold_after(its.conv, module.conv, module.norm)
        elif isinstance(module, Reading):
            assert isinstance(module.norm, BatchNorm)
            fold_after(its.reduce, module.reduce, module.norm)
        elif isinstance(module, BoardAttention):
            assert isinstance(module.norm, BatchNorm)
            fold_before(its.squares.qkv, module.norm, module.squares.qkv)
