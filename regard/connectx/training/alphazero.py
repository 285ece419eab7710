"""AlphaZero with a Gumbel root: a short search improves the policy, and the network learns the improved policy.

Many games run in parallel; each update plays one move in every game. The move, and the improved policy that is learnt,
come from sequential halving at the root (`regard.connectx.search.gumbel_root`); the value learns the result of the
game. Positions of finished games enter a replay buffer, from which an update draws random mini-batches. Half of the
drawn positions are mirrored.

The checkpoint contains the games in progress, the buffer and the averaged weights. Search trees are not reused from
move to move, so that a resumed run produces the same bits.
"""

import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from regard import models
from regard.connectx.game.board_batch import RUNNING, WON, Boards
from regard.connectx.search.gumbel_root import gumbel_search
from regard.connectx.search.puct_network_search import Puct
from regard.connectx.training.distillation import DECAY, DistillationLoss, WeightAverage, mirrored_inputs
from regard.models.transformer.config import check_whole
from regard.training.distributed import Ranks
from regard.training.metrics import Metrics
from regard.training.optimizers import apply_gradients, make_optimizer
from regard.training.settings import Settings

Array = NDArray[Any]

FAST_DECAY = 1 - (1 - DECAY) * 10  # decay of the averaged weights, which also play: faster than in distillation


@dataclass(frozen=True)
class AlphaZeroOptions:
    """Options of AlphaZero."""

    games: int = 128  # number of games in parallel
    simulations: int = 16  # simulations of the search for one move
    considered: int = 7  # moves that the root considers
    buffer: int = 100_000  # positions in the replay buffer
    learn: int = 2  # mini-batches after each move of all games
    fewest: int = 2_000  # positions in the buffer before learning begins

    def __post_init__(self) -> None:
        check_whole(self, "games", "simulations", "considered", "buffer", "learn", "fewest")
        if self.fewest > self.buffer:
            raise ValueError(f"fewest must be at most buffer, got {self.fewest} and {self.buffer}")


class ReplayBuffer:
    """The most recent positions of finished games: bitboards, improved policy, and the result for the side to move."""

    ARRAYS = ("position", "mask", "policy", "result")

    def __init__(self, capacity: int, columns: int) -> None:
        self.position, self.mask = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)
        self.policy, self.result = np.zeros((capacity, columns), np.float32), np.zeros(capacity, np.float32)
        self.added = 0

    def __len__(self) -> int:
        return min(self.added, len(self.mask))

    def add(self, position: Array, mask: Array, policy: Array, result: Array) -> None:
        """Add positions and overwrite the oldest ones if the buffer is full."""
        indices = (self.added + np.arange(len(mask))) % len(self.mask)
        self.position[indices], self.mask[indices] = position, mask
        self.policy[indices], self.result[indices] = policy, result
        self.added += len(mask)


class AlphaZero:
    """AlphaZero as an algorithm of the training loop; the module's docstring describes it."""

    unit: ClassVar[str] = "positions"

    def __init__(self, network: models.BoardNet, settings: Settings, ranks: Ranks, options: AlphaZeroOptions) -> None:
        self.network, self.settings, self.ranks, self.options = network.to(ranks.device), settings, ranks, options
        self.optimizer = make_optimizer(network, settings, ranks.device)
        self.loss = ranks.average_gradients(DistillationLoss(network))
        self.boards = Boards(max(1, options.games // ranks.world))
        games, rows, columns = len(self.boards), self.boards.shape.rows, self.boards.shape.columns
        self.buffer = ReplayBuffer(options.buffer, columns)
        # History of every game in progress, by number of stones: bitboards and improved policy.
        self.position, self.mask = (np.zeros((games, rows * columns), np.int64) for _ in range(2))
        self.policy = np.zeros((games, rows * columns, columns), np.float32)
        self.average = WeightAverage(network)

    def update(self, step: int, learning_rate: float, progress: float) -> Metrics:
        """Play one move in every game, then learn from `options.learn` mini-batches."""
        random = np.random.default_rng([self.settings.seed, step, self.ranks.rank])
        started = time.monotonic()
        finished = self._play(random)
        losses = self._learn(learning_rate, random)
        games, positions, mini_batches = self.ranks.total(finished, len(self.boards), len(losses))
        policy_loss, value_loss = np.mean(losses, axis=0)[:2].tolist() if losses else (0.0, 0.0)
        return {
            "policy_loss": policy_loss, "value_loss": value_loss, "loss": policy_loss + value_loss,
            "buffer": len(self.buffer), "mini_batches": mini_batches,
            "games_per_second": games / max(time.monotonic() - started, 1e-9), "positions": positions,
        }  # fmt: skip

    def _play(self, random: np.random.Generator) -> int:
        """Play one move in every game and return how many games are finished."""
        boards = self.boards
        evaluator = models.Evaluator(self.network_for_evaluation())
        search = Puct(
            [boards[game] for game in range(len(boards))], lambda planes, legal: evaluator(planes, legal)[:2],
            nodes=self.options.simulations + 4, seed=int(random.integers(2**62)),
        )  # fmt: skip
        moves = gumbel_search(search, self.options.simulations, considered=self.options.considered)
        games, stones = np.arange(len(boards)), boards.stones()
        self.position[games, stones], self.mask[games, stones] = boards.position, boards.mask
        self.policy[games, stones] = moves.policy
        status = boards.step(moves.columns).copy()
        finished = np.flatnonzero(status != RUNNING)
        for game in finished.tolist():
            # The side that moved last has won.
            result = float(status[game] == WON) * (-1.0) ** np.arange(stones[game], -1, -1)
            game_slice = game, slice(int(stones[game]) + 1)
            self.buffer.add(self.position[game_slice], self.mask[game_slice], self.policy[game_slice], result)
        boards.reset(status != RUNNING)
        return len(finished)

    def _learn(self, learning_rate: float, random: np.random.Generator) -> list[list[float]]:
        """Learn from mini-batches of the buffer and return their losses."""
        ready = self.ranks.total(len(self.buffer) >= self.options.fewest)[0] == self.ranks.world
        losses = []
        self.network.train()
        for _ in range(self.options.learn if ready else 0):
            indices = random.integers(len(self.buffer), size=max(1, self.settings.batch // self.ranks.world))
            batch = self._batch(indices, random.random(len(indices)) < 0.5)
            parts = self.loss(*(tensor.to(self.ranks.device) for tensor in batch))
            parts[:2].sum().backward()
            apply_gradients(self.network, self.optimizer, learning_rate, self.settings.clip)
            losses.append(parts.detach().tolist())
            self.average.update(FAST_DECAY)
        return losses

    def _batch(self, indices: Array, mirrored: Array) -> tuple[Tensor, ...]:
        """Return positions of the replay buffer as arguments for `DistillationLoss`."""
        buffer = self.buffer
        planes, legal = mirrored_inputs(buffer.position[indices], buffer.mask[indices], self.boards.shape, mirrored)
        policy = np.where(mirrored[:, None], buffer.policy[indices][:, ::-1], buffer.policy[indices])
        arrays = (planes, legal, policy, buffer.result[indices][:, None], np.zeros_like(policy))
        return tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)

    def network_for_evaluation(self) -> models.BoardNet:
        """Return the network with averaged weights, which also plays the games."""
        return self.average.averaged_network()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the games in progress, the buffer and the averaged weights."""
        tensors = {name: torch.from_numpy(array) for name, array in self._arrays().items()}
        tensors |= {f"average.{name}": value for name, value in self.average.tensors.items()}
        return tensors, {"added": self.buffer.added}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore the games, the buffer and the averaged weights that `state` returned."""
        self.buffer.added = int(values["added"])
        for name, array in self._arrays().items():
            array[:] = tensors[name].numpy()
        self.average.load({name: tensors[f"average.{name}"] for name in self.average.tensors})

    def _arrays(self) -> dict[str, Array]:
        """Return the arrays of a checkpoint: games in progress, and the part of the buffer that is in use."""
        games = {"boards.position": self.boards.position, "boards.mask": self.boards.mask, "position": self.position}
        buffer = {f"buffer.{name}": getattr(self.buffer, name)[: len(self.buffer)] for name in ReplayBuffer.ARRAYS}
        return {**games, "mask": self.mask, "policy": self.policy, **buffer}
