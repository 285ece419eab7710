"""AlphaZero with a Gumbel root: a short search improves the policy, and the network learns the improved policy.

Many games run in parallel, in groups, and workers play them (`self_play.py`): processes, actors of a Ray cluster, or
this process. The move, and the improved policy that is learnt, come from sequential halving at the root
(`regard.connectx.search.gumbel_root`); the value learns the result of the game. Positions of finished games enter a
replay buffer, from which an update draws random mini-batches. Half of the drawn positions are mirrored.

An update takes the result of the next group, in a fixed order, learns, and sends the group to the workers again with
the new averaged weights. Workers play the other groups meanwhile. So the weights with which a group plays do not depend
on how many workers there are, or on which of them was lost: every engine produces the same bits.

The checkpoint contains the results of all groups, the buffer and the averaged weights. Search trees are not reused from
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
from regard.connectx.game.board_batch import Boards
from regard.connectx.training.distillation import DECAY, DistillationLoss, WeightAverage, mirrored_inputs
from regard.connectx.training.self_play import Played, PlayTask, new_games, prepare
from regard.models.transformer.config import check_whole
from regard.parallel import Engine, LocalEngine, Pool, Work
from regard.training.distributed import Ranks
from regard.training.metrics import Metrics
from regard.training.optimizers import apply_gradients, make_optimizer
from regard.training.settings import Settings

Array = NDArray[Any]

GROUP = 64  # games of a group; with fewer, the network takes longer for each position
FEWEST_GROUPS = 2  # so that a worker plays while the main process learns from the other group
FAST_DECAY = 1 - (1 - DECAY) * 10  # decay of the averaged weights, which also play: faster than in distillation


@dataclass(frozen=True)
class AlphaZeroOptions:
    """Options of AlphaZero."""

    games: int = 128  # number of games in parallel
    simulations: int = 16  # simulations of the search for one move
    considered: int = 7  # moves that the root considers
    buffer: int = 100_000  # positions in the replay buffer
    learn: int = 2  # mini-batches of an update
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

    def __init__(
        self, network: models.BoardNet, settings: Settings, ranks: Ranks, options: AlphaZeroOptions,
        engine: Engine | None = None,
    ) -> None:  # fmt: skip
        self.network, self.settings, self.ranks, self.options = network.to(ranks.device), settings, ranks, options
        self.optimizer = make_optimizer(network, settings, ranks.device)
        self.loss = ranks.average_gradients(DistillationLoss(network))
        count = max(1, options.games // ranks.world)
        groups = min(max(FEWEST_GROUPS, count // GROUP), count)
        sizes = [len(part) for part in np.array_split(np.arange(count), groups)]
        self._games = [new_games(size) for size in sizes]  # of each group, when its last task began
        self._results: dict[int, Played] = {}  # of groups whose task is finished
        self.shape = Boards(1).shape
        self.buffer = ReplayBuffer(options.buffer, self.shape.columns)
        self._engine, self._started = engine or LocalEngine(), False
        self._pool: Pool[PlayTask, Played] | None = None
        self.average = WeightAverage(network)
        self.rounds = 0  # results taken from groups of games

    def update(self, step: int, learning_rate: float, progress: float) -> Metrics:
        """Take the result of the next group of games, learn from mini-batches, and let the group play on.

        Until the buffer has `options.fewest` positions, nothing is learnt, and the number of positions is 0.
        """
        turn = self.rounds
        self.rounds += 1
        random = np.random.default_rng([self.settings.seed, turn, self.ranks.rank])
        started = time.monotonic()
        if not self._started:
            for group in range(len(self._games)):
                if group not in self._results:
                    self._submit(group, turn - len(self._games) + group)
            self._started = True
        group = turn % len(self._games)
        self._wait(group)
        played = self._results.pop(group)
        self.buffer.add(**played.positions)
        losses = self._learn(learning_rate, random)
        self._games[group] = played.games
        self._submit(group, turn)
        games, mini_batches = self.ranks.total(played.ended, len(losses))
        speed = games / max(time.monotonic() - started, 1e-9)
        positions = mini_batches * max(1, self.settings.batch // self.ranks.world)
        if not losses:
            collected = {"buffer": len(self.buffer), "fewest": self.options.fewest}
            return {**collected, "games_per_second": speed, "positions": 0}
        policy_loss, value_loss = np.mean(losses, axis=0)[:2].tolist()
        return {
            "policy_loss": policy_loss, "value_loss": value_loss, "loss": policy_loss + value_loss,
            "buffer": len(self.buffer), "mini_batches": mini_batches,
            "games_per_second": speed, "positions": positions,
        }  # fmt: skip

    def _submit(self, group: int, turn: int) -> None:
        """Send a group to the workers, with the present averaged weights."""
        if self._pool is None:
            # As many moves as groups: each update receives one position for each of `options.games`.
            arguments = self.options.simulations, self.options.considered, len(self._games)
            self._pool = self._engine.start(Work(prepare, arguments, in_advance=1))
        network = self._engine.share(models.Evaluator(self.network_for_evaluation()))
        seed = (self.settings.seed, self.ranks.rank, turn + len(self._games))
        self._pool.submit(PlayTask(group, self._games[group], network, seed))

    def _wait(self, *groups: int) -> None:
        """Wait until the tasks of these groups are finished."""
        while not self._results.keys() >= set(groups):
            assert self._pool is not None
            if (item := self._pool.next_result()) is not None:
                self._results[item[0].group] = item[1]

    def close(self) -> None:
        """End the workers."""
        if self._pool is not None:
            self._pool.close()

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
        planes, legal = mirrored_inputs(buffer.position[indices], buffer.mask[indices], self.shape, mirrored)
        policy = np.where(mirrored[:, None], buffer.policy[indices][:, ::-1], buffer.policy[indices])
        arrays = (planes, legal, policy, buffer.result[indices][:, None], np.zeros_like(policy))
        return tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)

    def network_for_evaluation(self) -> models.BoardNet:
        """Return the network with averaged weights, which also plays the games."""
        return self.average.averaged_network()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the results of all groups, the buffer and the averaged weights."""
        groups = range(len(self._games))
        self._wait(*groups)
        arrays = {f"buffer.{name}": getattr(self.buffer, name)[: len(self.buffer)] for name in ReplayBuffer.ARRAYS}
        for group in groups:
            played = self._results[group]
            arrays |= {f"games.{group}.{name}": array for name, array in played.games.items()}
            arrays |= {f"ended.{group}.{name}": array for name, array in played.positions.items()}
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        tensors |= {f"average.{name}": value for name, value in self.average.tensors.items()}
        ended = [self._results[group].ended for group in groups]
        return tensors, {"added": self.buffer.added, "rounds": self.rounds, "ended": ended}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore what `state` returned; with another number of processes, games are left out or repeated."""
        self.buffer.added = int(values["added"])
        self.rounds = int(values["rounds"])
        for name in ReplayBuffer.ARRAYS:
            getattr(self.buffer, name)[: len(self.buffer)] = tensors[f"buffer.{name}"].numpy()
        ended = values["ended"]
        for group, games in enumerate(self._games):
            stored = group % len(ended)
            after = {
                name: np.resize(tensors[f"games.{stored}.{name}"].numpy(), array.shape) for name, array in games.items()
            }
            positions = {name: tensors[f"ended.{stored}.{name}"].numpy() for name in ReplayBuffer.ARRAYS}
            self._results[group] = Played(after, positions, ended[stored])
        self.average.load({name: tensors[f"average.{name}"] for name in self.average.tensors})
