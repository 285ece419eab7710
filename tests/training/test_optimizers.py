"""Optimizers: Muon for matrices, AdamW for other parameters."""

import copy

import pytest
import torch
from torch import nn

from regard.training import Settings
from regard.training.optimizers import STEP_LENGTH, is_matrix, make_optimizer, orthogonalize


@pytest.mark.parametrize("shape", [(8, 64), (64, 8), (16, 16)])
def test_orthogonalize_equalizes_all_directions(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    rank = min(shape)
    left, right = (torch.linalg.qr(torch.randn(side, rank, generator=generator)).Q for side in shape)
    uneven = (left * torch.logspace(0, -2, rank)) @ right.T  # the last singular value is a hundredth of the first
    result = orthogonalize(uneven)
    along = (left.T @ result @ right).diagonal()
    assert (along > 0.5).all()
    assert (along < 1.3).all()
    torch.testing.assert_close(left.T @ result @ right, along.diag(), atol=1e-4, rtol=0)  # no other components


def model() -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Sequential(
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.Flatten(), nn.Linear(16 * 4, 32), nn.Linear(32, 2)
    )
    return layers.to(memory_format=torch.channels_last)


def test_adamw_updates_parameters_that_are_no_matrices() -> None:
    one = model()
    two = copy.deepcopy(one)
    x = torch.randn(4, 8, 2, 2)
    for net, name in ((one, "adamw"), (two, "muon")):
        optimizer = make_optimizer(net, Settings(optimizer=name, learning_rate=1e-2), torch.device("cpu"))
        net(x).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    for (name, first), second in zip(one.named_parameters(), two.parameters(), strict=True):
        assert torch.equal(first, second) != is_matrix(first), name
    assert [name for name, p in one.named_parameters() if is_matrix(p)] == ["0.weight", "3.weight"]


def test_the_learning_rate_determines_the_step_length() -> None:
    net = model()
    before = {name: value.detach().clone() for name, value in net.named_parameters()}
    settings = Settings(optimizer="muon", learning_rate=1e-2, weight_decay=0.0)
    optimizer = make_optimizer(net, settings, torch.device("cpu"))
    net(torch.randn(64, 8, 2, 2)).square().sum().backward()
    optimizer.step()
    moved = (net[0].weight.detach() - before["0.weight"]).square().mean().sqrt()
    assert moved.item() == pytest.approx(1e-2 * STEP_LENGTH, rel=0.3)


def test_weights_without_gradient_do_not_change() -> None:
    net = model()
    before = net[3].weight.detach().clone()
    optimizer = make_optimizer(net, Settings(optimizer="muon"), torch.device("cpu"))
    net[0](torch.randn(4, 8, 2, 2)).sum().backward()
    optimizer.step()
    assert torch.equal(net[3].weight, before)


def test_an_unknown_optimizer() -> None:
    with pytest.raises(ValueError, match="optimizer must be adamw or muon, got 'sgd'"):
        Settings(optimizer="sgd")
