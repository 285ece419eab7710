"""Networks other than a plain BoardNet: subclasses, changed parts, own modules and functions, and wrong results."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.models import BoardNet, BoardOutput, Evaluator, save


class Reversed(BoardNet):
    """A subclass that computes something else."""

    def forward(self, planes: Tensor, legal: Tensor | None = None) -> BoardOutput:
        output = super().forward(planes, legal)
        return BoardOutput(output.policy.flip(-1) * 3, -output.value)


class WithLayer(BoardNet):
    """A subclass with parameters that a BoardNet does not have."""

    def __init__(self) -> None:
        super().__init__("tiny")
        self.extra = nn.Linear(7, 7)

    def forward(self, planes: Tensor, legal: Tensor | None = None) -> BoardOutput:
        output = super().forward(planes)
        return BoardOutput(self.extra(output.policy), output.value)


class Own(nn.Module):
    """A small network of another kind."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(2)
        self.policy, self.value = nn.Linear(84, 7), nn.Linear(84, 1)

    def forward(self, planes: Tensor) -> tuple[Tensor, Tensor]:
        x = self.norm(planes).flatten(1)
        return self.policy(x), self.value(x).tanh()[:, 0]


def changed_part() -> BoardNet:
    net = BoardNet("tiny")
    net.blocks[0] = nn.Tanh()
    return net


def with_hook() -> BoardNet:
    net = BoardNet("tiny")
    net.policy.register_forward_hook(lambda module, inputs, output: -output)
    return net


@pytest.mark.parametrize("make", [lambda: Reversed("tiny"), WithLayer, Own, changed_part, with_hook])
def test_networks_are_evaluated_as_themselves(make: Any) -> None:
    torch.manual_seed(0)
    net = make()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
        net.train()(torch.rand(16, 2, 6, 7).round())  # moves the statistics of the norms
    net.eval()
    planes = torch.rand(5, 2, 6, 7).round()
    policy, value, *_ = net(planes)
    result = Evaluator(net)(planes.numpy())
    assert np.allclose(result.policy, policy.softmax(-1).detach(), atol=1e-5)
    assert np.allclose(result.value, value.detach().flatten(), atol=1e-5)
    assert np.abs(np.diff(result.policy, axis=0)).max() > 1e-3
    with torch.no_grad():
        next(net.parameters()).zero_()  # the evaluator has a copy
    assert np.array_equal(Evaluator(net, batch=2)(planes.numpy()).value.shape, (5,))
    assert np.allclose(result.value, value.detach().flatten(), atol=1e-5)


@pytest.mark.parametrize(
    ("network", "error", "message"),
    [
        (lambda planes: torch.zeros(len(planes), 7), TypeError, "expected a policy of shape"),
        (lambda planes: (torch.zeros(len(planes), 7),), TypeError, "expected a value of shape .* got nothing"),
        (lambda planes: (torch.zeros(len(planes), 6), torch.zeros(len(planes))), ValueError, r"policy .* got \(2, 6\)"),
        (lambda planes: (torch.zeros(len(planes), 7), torch.zeros(3)), ValueError, r"value .* got \(3,\)"),
        (lambda planes: (1, 2, 3, 4), ValueError, "got 4 results"),
        (nn.Flatten(), TypeError, "maps planes"),
    ],
)
def test_wrong_results_are_rejected(network: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Evaluator(network)(np.zeros((2, 2, 6, 7)))


def test_what_cannot_be_called_or_saved_is_rejected(tmp_path: Any) -> None:
    with pytest.raises(TypeError):
        Evaluator("network")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"save takes a model of regard.models .* got Reversed"):
        save(Reversed("tiny"), tmp_path)
