"""What is read off a feature map (B, C, rows, columns) of any size: a number for each column, and for the whole."""

import torch
from torch import Tensor, nn

from regard.models.board_config import BoardConfig
from regard.models.board_norm import norm_of


class Reading(nn.Module):
    """Fewer channels, then mean and maximum over squares, then a hidden layer.

    over        the dimensions that are pooled: the rows (2,) for one answer a column, both (2, 3) for one in all
    answers     how many numbers

    One set of weights serves every board, since all columns are read alike. The last layer starts small: an untrained
    network holds all moves for about equally good and the game for open.
    """

    def __init__(self, config: BoardConfig, over: tuple[int, ...], answers: int) -> None:
        super().__init__()
        self.over = over
        self.reduce = nn.Conv2d(config.channels, config.head_channels, 1, bias=config.norm == "none")
        self.norm = norm_of(config.norm, config.head_channels)
        self.hidden = nn.Linear(2 * config.head_channels, config.value_hidden)
        self.answer = nn.Linear(config.value_hidden, answers)
        with torch.no_grad():
            self.answer.weight.mul_(0.1)
            self.answer.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """(B, columns, answers) or (B, answers)."""
        x = self.norm(self.reduce(x)).relu_()
        pooled = torch.cat((x.mean(self.over), x.amax(self.over)), 1).movedim(1, -1)  # (B, [columns,] 2·channels)
        answer: Tensor = self.answer(self.hidden(pooled).relu_())
        return answer
