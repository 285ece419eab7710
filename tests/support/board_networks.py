"""Boards and board networks for tests."""

import torch

from regard.models import BoardNet


def boards(count: int, rows: int = 6, columns: int = 7, seed: int = 0) -> torch.Tensor:
    """Return boards with random stones, as planes (count, 2, rows, columns)."""
    stones = torch.randint(0, 3, (count, rows, columns), generator=torch.Generator().manual_seed(seed))
    return torch.stack((stones == 1, stones == 2), 1).float()


def seeded(*preset, seed: int = 0, **changes) -> BoardNet:
    """Return a network with reproducible weights."""
    torch.manual_seed(seed)
    return BoardNet(*preset, **changes)


def settled(*preset, **changes) -> BoardNet:
    """Return a network whose norms have statistics of boards and scales other than 1."""
    net = seeded(*preset, **changes)
    with torch.no_grad():
        for parameter in net.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn_like(parameter))
        for step in range(3):
            net(boards(16, seed=step))
    return net.eval()
