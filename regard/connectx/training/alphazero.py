"""AlphaZero with a Gumbel root: a search of few simulations improves the policy, and the network learns from that.

Many games go on side by side, one move of each in an update. The move comes from sequential halving at the root
(halving.py), and so does the improved policy that is learnt; the value learns how the game ended. Positions of games
that have ended go into a buffer; an update learns from some of them, drawn by lot, half of them mirrored.

The games under way, the buffer and the averaged weights are in the checkpoint. The trees are not kept from move to
move, so that a stopped run goes on as it would have.
"""

import copy
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard import models, training
from regard.connectx.game.board_batch import RUNNING, WON, Boards
from regard.connectx.search.gumbel_root import gumbel_search
from regard.connectx.search.puct import Puct
from regard.connectx.training.distillation import AVERAGE, Lesson, shown
from regard.connectx.training.loop import Metrics

Array = NDArray[Any]


@dataclass(frozen=True)
class ZeroOptions:
    """How AlphaZero plays and learns.

    games           that run side by side
    simulations     of the search for a move
    considered      moves that the root considers
    buffer          positions that are remembered
    learn           mini-batches after each move of all games
    fewest          positions in the buffer before anything is learnt
    """

    games: int = 128
    simulations: int = 16
    considered: int = 7
    buffer: int = 100_000
    learn: int = 2
    fewest: int = 2_000

    def __post_init__(self) -> None:
        for name in ("games", "simulations", "considered", "buffer", "learn", "fewest"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.fewest > self.buffer:
            raise ValueError(f"the buffer holds {self.buffer} positions, so it never has the {self.fewest} to begin")


class Buffer:
    """The last positions of games that have ended: stones, improved policy, and how it ended for the side to move."""

    def __init__(self, room: int, columns: int) -> None:
        self.position, self.mask = np.zeros(room, np.int64), np.zeros(room, np.int64)
        self.policy, self.result = np.zeros((room, columns), np.float32), np.zeros(room, np.float32)
        self.added = 0

    def __len__(self) -> int:
        return min(self.added, len(self.mask))

    def add(self, position: Array, mask: Array, policy: Array, result: Array) -> None:
        """Remember these, and forget the oldest."""
        places = (self.added + np.arange(len(mask))) % len(self.mask)
        self.position[places], self.mask[places] = position, mask
        self.policy[places], self.result[places] = policy, result
        self.added += len(mask)


class Zero:
    """The method: see the module."""

    def __init__(
        self, net: models.BoardNet, settings: training.Settings, ranks: training.Ranks, options: ZeroOptions,
        size: tuple[int, int, int] = (6, 7, 4),
    ) -> None:  # fmt: skip
        self.net, self.settings, self.ranks, self.options = net.to(ranks.device), settings, ranks, options
        self.optimizer = training.optimizer_of(net, settings, ranks.device)
        self.lesson = ranks.shared(Lesson(net))
        self.boards = Boards(max(1, options.games // ranks.world), *size)
        self.buffer = Buffer(options.buffer, size[1])
        games, squares = len(self.boards), size[0] * size[1]
        # Of every game under way, by number of stones: what the position was, and what the search made of it.
        self.position, self.mask = np.zeros((games, squares), np.int64), np.zeros((games, squares), np.int64)
        self.policy = np.zeros((games, squares, size[1]), np.float32)
        self.average = {name: value.detach().clone() for name, value in net.state_dict().items()}

    def update(self, step: int, rate: float, share: float) -> Metrics:
        """One move of every game, then some mini-batches."""
        random = np.random.default_rng([self.settings.seed, step, self.ranks.rank])
        began = time.monotonic()
        ended = self._play(random)
        losses = self._learn(step, rate, random)
        names = ("policy_loss", "value_loss")
        games, positions, learnt = self.ranks.total(ended, len(self.boards), len(losses))
        mean = np.mean(losses, axis=0)[:2] if losses else np.zeros(2)
        row: Metrics = {name: float(value) for name, value in zip(names, mean, strict=True)}
        row |= {"loss": float(mean.sum()), "buffer": len(self.buffer), "mini_batches": learnt}
        row["games_per_second"] = games / max(time.monotonic() - began, 1e-9)
        return {**row, "positions": positions}

    def _play(self, random: np.random.Generator) -> int:
        boards = self.boards
        evaluator = models.Evaluator(self.graded())

        def evaluate(planes: Array, legal: Array) -> tuple[Array, Array]:
            evaluation = evaluator(planes, legal)
            return evaluation.policy, evaluation.value

        search = Puct(
            [boards[game] for game in range(len(boards))], evaluate, nodes=self.options.simulations + 4,
            seed=int(random.integers(2**62)),
        )  # fmt: skip
        chosen = gumbel_search(search, self.options.simulations, considered=self.options.considered)
        games, stones = np.arange(len(boards)), boards.stones()
        self.position[games, stones], self.mask[games, stones] = boards.position, boards.mask
        self.policy[games, stones] = chosen.policy
        status = boards.step(chosen.columns).copy()
        done = np.flatnonzero(status != RUNNING)
        for game in done.tolist():
            length = int(stones[game]) + 1
            won = float(status[game] == WON)
            result = won * (-1.0) ** np.arange(length - 1, -1, -1)  # the last to move has won
            self.buffer.add(
                self.position[game, :length], self.mask[game, :length], self.policy[game, :length], result
            )  # fmt: skip
        boards.reset(status != RUNNING)
        return len(done)

    def _learn(self, step: int, rate: float, random: np.random.Generator) -> list[list[float]]:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        ready = self.ranks.total(len(self.buffer) >= self.options.fewest)[0] == self.ranks.world
        losses = []
        self.net.train()
        for _ in range(self.options.learn if ready else 0):
            here = random.integers(len(self.buffer), size=max(1, self.settings.batch // self.ranks.world))
            lot = self._lot(here, random.random(len(here)) < 0.5)
            found = self.lesson(*(tensor.to(self.ranks.device) for tensor in lot))
            found[:2].sum().backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), self.settings.clip)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(found.detach().tolist())
            now = self.net.state_dict()
            torch._foreach_lerp_(list(self.average.values()), [now[name] for name in self.average], 1 - KEPT)
        return losses

    def _lot(self, here: Array, turned: Array) -> tuple[Tensor, ...]:
        """A batch as `Lesson` takes it."""
        buffer = self.buffer
        planes, legal = shown(buffer.position[here], buffer.mask[here], self.boards.shape, turned)
        policy = np.where(turned[:, None], buffer.policy[here][:, ::-1], buffer.policy[here])
        arrays = (planes, legal, policy, buffer.result[here][:, None], np.zeros_like(policy))
        return tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)

    def graded(self) -> models.BoardNet:
        """The network with averaged weights: that is also who plays."""
        net = copy.deepcopy(self.net)
        net.load_state_dict(self.average)
        return net.eval()

    def remembered(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The games under way, the buffer, the averaged weights."""
        arrays = {
            "boards.position": self.boards.position, "boards.mask": self.boards.mask, "position": self.position,
            "mask": self.mask, "policy": self.policy,
        }  # fmt: skip
        size = len(self.buffer)
        for name in ("position", "mask", "policy", "result"):
            arrays[f"buffer.{name}"] = getattr(self.buffer, name)[:size]
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        tensors |= {f"average.{name}": value for name, value in self.average.items()}
        return tensors, {"added": self.buffer.added}

    def recall(self, tensors: dict[str, Tensor], kept: dict[str, Any]) -> None:
        """Take them back."""
        self.boards.position[:], self.boards.mask[:] = (tensors[f"boards.{n}"].numpy() for n in ("position", "mask"))
        self.position[:], self.mask[:] = tensors["position"].numpy(), tensors["mask"].numpy()
        self.policy[:] = tensors["policy"].numpy()
        self.buffer.added = int(kept["added"])
        for name in ("position", "mask", "policy", "result"):
            getattr(self.buffer, name)[: len(self.buffer)] = tensors[f"buffer.{name}"].numpy()
        for name in self.average:
            self.average[name].copy_(tensors[f"average.{name}"])


KEPT = 1 - (1 - AVERAGE) * 10  # of the averaged weights: they follow sooner than in distillation, since they play
