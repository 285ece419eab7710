"""What a board network is made of, and the sizes that have names.

| preset | channels | heads | attention after every | layers | for |
|---|---|---|---|---|---|
| `high` | 144 | 24 | 2 blocks | 24 (16 … 32) | strength, where time does not count |
| `balanced` | 144 | 12 | 3 blocks | 14 (12 … 16) | |
| `light` | 144 | 6 | 4 blocks | 10 (8 … 12) | |
| `small` | 64 | 8 | 2 blocks | 5 | training on two CPU cores |
| `tiny` | 32 | 4 | 4 blocks | 4 | tests, and search with many visits |
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from regard.attention import check_heads
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
# Name in a file -> field. Files were written before the fields had their present names.
FIELD_NAMES = {"memory": "opening_table", "memory_bits": "opening_table_bits"}
DEPTHS = {"high": (16, 32), "balanced": (12, 16), "light": (8, 12)}


@dataclass(frozen=True)
class BoardConfig:
    """The sizes of a `BoardNet`; none of them is the size of the board.

    channels        C, of the feature map
    heads           of every attention layer; they divide the channels
    attn_every      attention follows every so many residual blocks; None for no attention at all
    layers          residual blocks
    norm            "batch": exact folding into the convolutions for inference; "group": one item at a time, the same
                    in training and in use; "none": no norm, and what a folded network has
    sees            what heads see, an equal share of them each: "all", "near3" (a neighbourhood of 3×3, or 5×5 …),
                    "row", "column", "rising", "falling", "diagonals", "lines" (all of these four lines)
    bias            "lines": each head learns what the direction and distance of a square on the same row, column or
                    diagonal add to its score (line_bias.py); "none": scores are of contents alone
    planes          P, of the input: own stones and the opponent's
    lines           a number of stones in a row: the network is shown the squares that complete such lines, how far
                    open lines are, and where stones can be played (input_planes.py); None shows it the planes alone
    head_channels   what the policy and the value head reduce the channels to
    value_hidden    width of the hidden layer in both heads
    score           "position": one more output (B, 1); "columns": one for every move (B, columns); unbounded,
                    for what a solver says of the moves left to the end
    opening_table   (rows, columns, stones): a table of learnt values (opening_table.py) for boards of this size with
                    at most this many stones; () for none
    opening_table_bits  the opening table has 2 to this power entries
    """

    channels: int = 144
    heads: int = 6
    attn_every: int | None = 4
    layers: int = 10
    norm: BoardNorm = "batch"
    sees: Sequence[str] = ("all",)  # kept as a tuple
    bias: BoardBias = "none"
    planes: int = 2
    lines: int | None = None
    head_channels: int = 32
    value_hidden: int = 64
    score: Score = "none"
    opening_table: Sequence[int] = ()  # stored as a tuple
    opening_table_bits: int = 19

    def __post_init__(self) -> None:
        for name in ("channels", "heads", "layers", "planes", "head_channels", "value_hidden"):
            check_whole(self, name)
        if self.attn_every is not None:
            check_whole(self, "attn_every")
            if self.attn_every > self.layers:
                raise ValueError(
                    f"attention after every {self.attn_every} of {self.layers} layers never comes; choose attn_every "
                    f"from 1 to {self.layers}, or None for a network without attention"
                )
        if self.lines is not None:
            check_whole(self, "lines")
            if self.lines < 2 or self.planes != 2:
                raise ValueError(
                    f"lines is how many in a row win, at least 2, with the planes of own and the opponent's stones; "
                    f"got lines={self.lines} and planes={self.planes}"
                )
        object.__setattr__(self, "opening_table", tuple(self.opening_table))
        if self.opening_table:
            self._check_opening_table()
        check_choice(self, "norm", get_args(BoardNorm))
        check_choice(self, "bias", get_args(BoardBias))
        check_choice(self, "score", get_args(Score))
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
        rows, columns, _ = self.opening_table
        if rows > 9 or columns > 12 or self.opening_table_bits > 28:
            raise ValueError(
                "an opening table supports boards of at most 9 rows and 12 columns and has at most 2^28 entries, "
                f"got {rows}×{columns} and 2^{self.opening_table_bits}"
            )

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> "BoardConfig":
        """Return the configuration that `to_dict` returned, with the names used in files."""
        return cls(**{FIELD_NAMES.get(name, name): value for name, value in stored.items()})

    def to_dict(self) -> dict[str, Any]:
        """Return the fields under the names used in files, as JSON values.

        >>> BoardConfig(opening_table=(6, 7, 8)).to_dict()["memory"]
        (6, 7, 8)
        """
        names = {field: name for name, field in FIELD_NAMES.items()}
        return {names.get(name, name): value for name, value in asdict(self).items()}

    @property
    def attentions(self) -> int:
        """How many attention layers there are."""
        return 0 if self.attn_every is None else self.layers // self.attn_every

    @classmethod
    def preset(cls, name: str, **changes: Any) -> "BoardConfig":
        """The sizes that go by a name, with changes. The depth of a documented preset keeps to its range.

        >>> BoardConfig.preset("light", layers=12).attentions
        3
        >>> BoardConfig.preset("light", layers=16)
        Traceback (most recent call last):
        ValueError: the preset 'light' has 8 to 12 layers, got 16; BoardConfig(…) takes any depth
        """
        if name not in PRESETS:
            raise ValueError(f"a preset is one of {', '.join(map(repr, PRESETS))}, got {name!r}")
        known = cls.__dataclass_fields__
        if unknown := [change for change in changes if change not in known]:
            raise TypeError(f"BoardConfig has no {', '.join(unknown)}; it has {', '.join(known)}")
        config = cls(**{**PRESETS[name], **changes})
        low, high = DEPTHS.get(name, (1, config.layers))
        if not low <= config.layers <= high:
            raise ValueError(
                f"the preset {name!r} has {low} to {high} layers, got {config.layers}; BoardConfig(…) takes any depth"
            )
        return config
