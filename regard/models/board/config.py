"""Configuration of a board network, and the presets.

| preset | channels | heads | attention after every | layers | use |
|---|---|---|---|---|---|
| `high` | 144 | 24 | 2 blocks | 24 (16 … 32) | best quality, slowest |
| `balanced` | 144 | 12 | 3 blocks | 14 (12 … 16) | |
| `light` | 144 | 6 | 4 blocks | 10 (8 … 12) | |
| `small` | 64 | 8 | 2 blocks | 5 | training on two CPU cores |
| `tiny` | 32 | 4 | 4 blocks | 4 | tests, and search with many visits |
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from regard.attention import check_heads
from regard.files import dataclass_from_json
from regard.models.board.attention_patterns import check_patterns
from regard.models.transformer.config import check_choice, check_whole

BoardNorm = Literal["batch", "group", "none"]
BoardBias = Literal["none", "lines"]
Score = Literal["none", "position", "columns"]

PRESETS: dict[str, dict[str, int]] = {
    "high": {"channels": 144, "heads": 24, "attn_every": 2, "layers": 24},
    "balanced": {"channels": 144, "heads": 12, "attn_every": 3, "layers": 14},
    "light": {"channels": 144, "heads": 6, "attn_every": 4, "layers": 10},
    "small": {"channels": 64, "heads": 8, "attn_every": 2, "layers": 5},
    "tiny": {"channels": 32, "heads": 4, "attn_every": 4, "layers": 4},
}
DEPTHS = {"high": (16, 32), "balanced": (12, 16), "light": (8, 12)}
# Name in a model file → field: networks that come with regard were saved before these fields were renamed.
FIELD_NAMES = {"memory": "opening_table", "memory_bits": "opening_table_bits"}


@dataclass(frozen=True)
class BoardConfig:
    """Configuration of a `BoardNet`. It does not contain the size of the board.

    channels        C, number of channels of the feature map
    heads           number of heads of every attention layer; a divisor of the channels
    attn_every      attention follows every so many residual blocks; None for no attention
    layers          number of residual blocks
    norm            "batch": batch norm, folded into the convolutions for inference; "group": group norm, which is the
                    same in training and inference; "none": no norm, as in a folded network
    sees            attention patterns (attention_patterns.py), an equal share of the heads for each: "all", "near3" (a
                    neighbourhood of 3×3, or 5×5 …), "row", "column", "rising", "falling", "diagonals", "lines"
    bias            "lines": each head learns a bias for the direction and distance between two squares on the same
                    row, column or diagonal (line_bias.py); "none": no bias
    planes          P, number of input planes: own stones and the opponent's stones
    lines           number of stones in a row that wins: adds input planes with the squares that complete such lines,
                    how full open lines are and which squares are playable (input_planes.py); None for no added planes
    head_channels   number of channels in the policy head and in the value head
    value_hidden    width of the hidden layer in both heads
    score           "position": one more output (B, 1); "columns": one for every move (B, columns); unbounded, trained
                    on the number of moves to the end that a solver finds
    opening_table   (rows, columns, stones): a table of learnt values (opening_table.py) for boards of this size with
                    at most this many stones; () for none
    opening_table_bits  the opening table has 2 to this power entries
    opening_table_taught    size in bytes of the set of positions that the table was taught, outside of which it has no
                    effect (taught_positions.py); 0 for tables that have an effect on all positions with few stones

    >>> BoardConfig(channels=64, heads=8, layers=6, attn_every=2).attentions
    3
    """

    channels: int = 144
    heads: int = 6
    attn_every: int | None = 4
    layers: int = 10
    norm: BoardNorm = "batch"
    sees: Sequence[str] = ("all",)  # stored as a tuple
    bias: BoardBias = "none"
    planes: int = 2
    lines: int | None = None
    head_channels: int = 32
    value_hidden: int = 64
    score: Score = "none"
    opening_table: Sequence[int] = ()  # stored as a tuple
    opening_table_bits: int = 19
    opening_table_taught: int = 0

    def __post_init__(self) -> None:
        check_whole(self, "channels", "heads", "layers", "planes", "head_channels", "value_hidden")
        check_whole(self, "attn_every", "lines", optional=True)
        if self.attn_every is not None and self.attn_every > self.layers:
            raise ValueError(
                f"attn_every={self.attn_every} with {self.layers} layers gives no attention layer; choose attn_every "
                f"from 1 to {self.layers}, or None for a network without attention"
            )
        if self.lines is not None and (self.lines < 2 or self.planes != 2):
            raise ValueError(
                "lines must be at least 2, the number of stones in a row that wins, and needs planes=2; "
                f"got lines={self.lines} and planes={self.planes}"
            )
        object.__setattr__(self, "opening_table", tuple(self.opening_table))
        if self.opening_table:
            self._check_opening_table()
        check_choice(self, norm=BoardNorm, bias=BoardBias, score=Score)
        check_heads(self.channels, self.heads)
        object.__setattr__(self, "sees", check_patterns(self.sees, self.heads))

    def _check_opening_table(self) -> None:
        whole = all(isinstance(number, int) and number > 0 for number in self.opening_table)
        if len(self.opening_table) != 3 or not whole or self.planes != 2:
            raise ValueError(
                "opening_table must be (rows, columns, stones), three whole numbers above 0, and needs planes=2; "
                f"got {self.opening_table} and planes={self.planes}"
            )
        check_whole(self, "opening_table_bits")
        if not isinstance(self.opening_table_taught, int) or self.opening_table_taught < 0:
            raise ValueError(f"opening_table_taught must be a number of bytes, got {self.opening_table_taught!r}")
        rows, columns, _ = self.opening_table
        if rows > 9 or columns > 12 or self.opening_table_bits > 28:
            raise ValueError(
                "an opening table supports boards of at most 9 rows and 12 columns and has at most 2^28 entries, "
                f"got {rows}×{columns} and 2^{self.opening_table_bits}"
            )

    @property
    def attentions(self) -> int:
        """Number of attention layers."""
        return 0 if self.attn_every is None else self.layers // self.attn_every

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "BoardConfig":
        """Return the preset `name` with other values for some fields; most presets allow a range of `layers`.

        >>> BoardConfig.preset("light", layers=12).attentions
        3
        >>> BoardConfig.preset("light", layers=16)
        Traceback (most recent call last):
        ValueError: the preset 'light' has 8 to 12 layers, got 16; BoardConfig(…) takes any depth
        """
        if name not in PRESETS:
            raise ValueError(f"a preset is one of {', '.join(map(repr, PRESETS))}, got {name!r}")
        fields = cls.__dataclass_fields__
        if unknown := [change for change in changes if change not in fields]:
            raise TypeError(f"BoardConfig has no {', '.join(unknown)}; it has {', '.join(fields)}")
        config = cls(**{**PRESETS[name], **changes})
        low, high = DEPTHS.get(name, (1, config.layers))
        if not low <= config.layers <= high:
            raise ValueError(
                f"the preset {name!r} has {low} to {high} layers, got {config.layers}; BoardConfig(…) takes any depth"
            )
        return config

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "BoardConfig":
        """Return the configuration with the fields that `to_dict` returned."""
        return dataclass_from_json(cls, {FIELD_NAMES.get(name, name): value for name, value in stored.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, under the names that files use.

        >>> BoardConfig(opening_table=(6, 7, 8)).to_dict()["memory"]
        (6, 7, 8)
        """
        names = {field: name for name, field in FIELD_NAMES.items()}
        return {names.get(name, name): value for name, value in asdict(self).items()}
