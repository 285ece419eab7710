"""Policy and value heads: from a feature map (B, C, rows, columns) of any size to numbers per column or per board."""

import torch
from torch import Tensor, nn

from regard.models.board.config import BoardConfig
from regard.models.board.norm import build_norm


class OutputHead(nn.Module):
    """Reduce the channels, take mean and maximum over squares, apply a hidden layer.

    columns     whether there is an output for each column, from its squares and from the whole board, or for the board
    outputs     number of outputs

    The same weights apply to every column, so they fit boards of any size. The last layer starts small: an untrained
    network gives all moves about the same probability and positions a value near 0.
    """

    def __init__(self, config: BoardConfig, *, columns: bool, outputs: int) -> None:
        super().__init__()
        self.columns = columns
        self.reduce = nn.Conv2d(config.channels, config.head_channels, 1, bias=config.norm == "none")
        self.norm = build_norm(config.norm, config.head_channels)
        self.hidden = nn.Linear((4 if columns else 2) * config.head_channels, config.value_hidden)
        self.answer = nn.Linear(config.value_hidden, outputs)
        with torch.no_grad():
            self.answer.weight.mul_(0.1)
            self.answer.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """Return (B, columns, outputs) or (B, outputs)."""
        x = self.norm(self.reduce(x)).relu_()
        pooled = torch.cat((x.mean((2, 3)), x.amax((2, 3))), 1)  # (B, 2·channels)
        if self.columns:
            whole = pooled[:, :, None].expand(-1, -1, x.shape[3])
            pooled = torch.cat((x.mean(2), x.amax(2), whole), 1).movedim(1, -1)  # (B, columns, 4·channels)
        outputs: Tensor = self.answer(self.hidden(pooled).relu_())
        return outputs
