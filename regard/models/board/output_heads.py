"""What is read off a feature map (B, C, rows, columns) of any size: a number for each column, and for the whole."""

import torch
from torch import Tensor, nn

from regard.models.board.config import BoardConfig
from regard.models.board.norm import norm_of


class Reading(nn.Module):
    """Fewer channels, then mean and maximum over squares, then a hidden layer.

    columns     whether there is an answer for each column, read off its squares and off the whole board, or one in all
    answers     how many numbers

    One set of weights serves every board, since all columns are read alike. The last layer starts small: an untrained
    network holds all moves for about equally good and the game for open.
    """

    def __init__(self, config: BoardConfig, *, columns: bool, answers: int) -> None:
        super().__init__()
        self.columns = columns
        self.reduce = nn.Conv2d(config.channels, config.head_channels, 1, bias=config.norm == "none")
        self.norm = norm_of(config.norm, config.head_channels)
        self.hidden = nn.Linear((4 if columns else 2) * config.head_channels, config.value_hidden)
        self.answer = nn.Linear(config.value_hidden, answers)
        with torch.no_grad():
            self.answer.weight.mul_(0.1)
            self.answer.bias.zero_()

    def forward(self, x: Tensor) -> Tensor:
        """(B, columns, answers) or (B, answers)."""
        x = self.norm(self.reduce(x)).relu_()
        pooled = torch.cat((x.mean((2, 3)), x.amax((2, 3))), 1)  # (B, 2·channels)
        if self.columns:
            whole = pooled[:, :, None].expand(-1, -1, x.shape[3])
            pooled = torch.cat((x.mean(2), x.amax(2), whole), 1).movedim(1, -1)  # (B, columns, 4·channels)
        answer: Tensor = self.answer(self.hidden(pooled).relu_())
        return answer
