"""Moving average of a network's weights."""

import copy

import torch
from torch import Tensor

from regard.models import BoardNet


class WeightAverage:
    """Exponential moving average of the weights and buffers of a network."""

    def __init__(self, network: BoardNet) -> None:
        self.network = network
        self.tensors = {name: value.detach().clone() for name, value in network.state_dict().items()}

    def update(self, decay: float) -> None:
        """Replace each average by decay · average + (1 − decay) · current value."""
        current = self.network.state_dict()
        torch._foreach_lerp_(list(self.tensors.values()), [current[name] for name in self.tensors], 1 - decay)

    def averaged_network(self) -> BoardNet:
        """Return a copy of the network with averaged weights, in eval mode."""
        network = copy.deepcopy(self.network)
        network.load_state_dict(self.tensors)
        return network.eval()

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore the averages by name."""
        for name, value in tensors.items():
            self.tensors[name].copy_(value)
