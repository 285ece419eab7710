"""PPO by self-play: many parallel games with sampled moves, then several passes over the moves played.

The two sides alternate, so the value of the next position counts negatively for the side to move. With reward r = 1 for
the winning move and V the value for the side to move,

    δₜ = rₜ − γ · V(sₜ₊₁) − V(sₜ)              (V = 0 after the end)
    Aₜ = δₜ − γλ · Aₜ₊₁                         generalised advantage estimation, with alternating sign
    Rₜ = Aₜ + V(sₜ)                             target of the value

    policy loss   −mean min(ρ·A, clip(ρ, 1 ± ε)·A),  ρ = π(a) / π_old(a)
    loss          policy loss + c_v · (V − R)² − c_e · entropy

Half of the positions are mirrored, both in play and in learning, because the policy need not be symmetric. In some of
the games one side is an earlier version of the network, drawn from a pool; its moves are not learnt. The checkpoint
contains the games in progress, the pool and the optimizer state, so that a resumed run produces the same bits.
"""

import copy
import time
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard import models
from regard.connectx.game.board_batch import RUNNING, WON, Boards
from regard.connectx.training.distillation import mirrored_inputs
from regard.models.transformer.config import check_whole
from regard.training.distributed import Ranks
from regard.training.metrics import Metrics
from regard.training.optimizers import apply_gradients, make_optimizer
from regard.training.settings import Settings

Array = NDArray[Any]


@dataclass(frozen=True)
class PpoOptions:
    """Options of PPO."""

    games: int = 256  # number of games in parallel
    moves: int = 16  # moves of each game between two updates
    epochs: int = 2  # passes over the moves played
    discount: float = 1.0  # γ, the discount of the next value
    trace: float = 0.9  # λ of the advantage estimation
    clip: float = 0.2  # ε, the limit of the policy's change in one update
    value_weight: float = 0.5  # c_v, the weight of the value loss
    entropy_weight: float = 0.01  # c_e, the weight of the entropy
    pool: int = 8  # number of earlier versions of the network that are kept
    pool_every: int = 10  # updates between two additions to the pool
    pool_share: float = 0.25  # fraction of the games that are played against an earlier version

    def __post_init__(self) -> None:
        check_whole(self, "games", "moves", "epochs", "pool", "pool_every")
        for name in ("discount", "trace", "pool_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be between 0 and 1, got {getattr(self, name)}")
        if self.clip <= 0:
            raise ValueError(f"clip must be greater than 0, got {self.clip}")


@dataclass
class Rollout:
    """The moves since the last update; each array has the shape (moves, games), or (moves · games,) in learning."""

    position: Array
    mask: Array
    column: Array
    log_probability: Array  # of the chosen move
    value: Array
    reward: Array
    over: Array
    own: Array  # whether the network that learns made the move
    mirrored: Array  # whether the network saw the mirrored position


def advantages(rollout: Rollout, last_values: Array, discount: float, trace: float) -> Array:
    """Return the advantage of every move; `last_values` are the values of the positions after the last moves.

    >>> one = lambda x: np.array([[x]])
    >>> won = Rollout(*[one(0)] * 4, one(0.25), one(1.0), *[one(True)] * 3)
    >>> advantages(won, np.array([0.9]), 1.0, 0.9)
    array([[0.75]])
    """
    result = np.zeros(rollout.value.shape)
    later, next_value = np.zeros(len(last_values)), last_values
    for t in range(len(result) - 1, -1, -1):
        continues = ~rollout.over[t].astype(bool)
        delta = rollout.reward[t] - discount * next_value * continues - rollout.value[t]
        later = delta - discount * trace * later * continues
        result[t], next_value = later, rollout.value[t]
    return result


class PpoLoss(nn.Module):
    """Total loss of PPO and its statistics, for one mini-batch."""

    NAMES = ("loss", "policy_loss", "value_loss", "entropy", "kl", "clip_share")

    def __init__(self, network: models.BoardNet, options: PpoOptions) -> None:
        super().__init__()
        self.network, self.options = network, options

    def forward(
        self, planes: Tensor, legal: Tensor, column: Tensor, old_log_probability: Tensor, advantage: Tensor,
        value_target: Tensor, own: Tensor,
    ) -> Tensor:  # fmt: skip
        """Return the loss to minimise, followed by the other statistics that `NAMES` lists."""
        output = self.network(planes)
        log_policy = output.policy.masked_fill(~legal, -1e9).log_softmax(-1)
        log_ratio = log_policy.gather(1, column[:, None])[:, 0] - old_log_probability
        ratio = log_ratio.exp()
        low, high = 1 - self.options.clip, 1 + self.options.clip
        count = own.sum().clamp(min=1)
        gain = torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)
        policy = -(gain * own).sum() / count
        value = (output.value[:, 0] - value_target).square().mean()
        entropy = -((log_policy.exp() * log_policy).sum(-1) * own).sum() / count
        total = policy + self.options.value_weight * value - self.options.entropy_weight * entropy
        with torch.no_grad():
            kl = ((ratio - 1 - log_ratio) * own).sum() / count
            clipped = (((ratio < low) | (ratio > high)) * own).sum() / count
        return torch.stack((total, policy, value, entropy, kl, clipped))


class Ppo:
    """PPO as an algorithm of the training loop; the module's docstring describes it."""

    unit: ClassVar[str] = "positions"

    def __init__(self, network: models.BoardNet, settings: Settings, ranks: Ranks, options: PpoOptions) -> None:
        if network.config.norm == "batch":
            raise ValueError(
                "PPO compares the network's outputs in play and in training, between which batch norms differ; "
                'use norm="group" or norm="none"'
            )
        self.network, self.settings, self.ranks, self.options = network.to(ranks.device), settings, ranks, options
        self.optimizer = make_optimizer(network, settings, ranks.device)
        self.loss = ranks.average_gradients(PpoLoss(network, options))
        self.boards = Boards(max(1, options.games // ranks.world))
        self.pool: list[dict[str, Tensor]] = []
        self.opponent = np.full(len(self.boards), -1)  # of each game: index in the pool; −1: the network itself
        self.side = np.zeros(len(self.boards), np.int64)  # side of the opponent; 0 moves first
        self.pool_networks: dict[int, models.BoardNet] = {}

    def update(self, step: int, learning_rate: float, progress: float) -> Metrics:
        """Play `options.moves` moves in every game, then learn from them."""
        random = np.random.default_rng([self.settings.seed, step, self.ranks.rank])
        if step % self.options.pool_every == 0:
            self._add_to_pool()
        started = time.monotonic()
        rollout, last_values, finished = self._play(random)
        play_seconds = time.monotonic() - started
        advantage = advantages(rollout, last_values, self.options.discount, self.options.trace)
        value_target = advantage + rollout.value
        losses = self._learn(rollout, advantage, value_target, learning_rate, random)
        variance = float(np.var(value_target))
        games, positions = self.ranks.total(finished, rollout.value.size)
        return {
            **dict(zip(PpoLoss.NAMES, np.mean(losses, axis=0).tolist(), strict=True)),
            "explained_variance": 1 - float(np.var(value_target - rollout.value)) / variance if variance > 0 else 0.0,
            "games_per_second": games / max(time.monotonic() - started, 1e-9), "play_seconds": play_seconds,
            "positions": positions,
        }  # fmt: skip

    def _play(self, random: np.random.Generator) -> tuple[Rollout, Array, int]:
        """Play `options.moves` moves in every game; return them, the final values, and the number of finished games."""
        boards, shape = self.boards, (self.options.moves, len(self.boards))
        position, mask, column = (np.zeros(shape, np.int64) for _ in range(3))
        log_probability, value, reward = (np.zeros(shape) for _ in range(3))
        over, own = np.zeros(shape, bool), np.zeros(shape, bool)
        mirrored = random.random(shape) < 0.5
        finished = 0
        self.network.eval()
        for t in range(self.options.moves):
            log_policy, values = self._evaluate(self.network, boards.position, boards.mask, mirrored[t])
            theirs = (self.opponent >= 0) & (boards.stones() % 2 == self.side)
            for index in np.unique(self.opponent[theirs]).tolist():
                games = np.flatnonzero(theirs & (self.opponent == index))
                log_policy[games], _ = self._evaluate(
                    self._pool_network(index), boards.position[games], boards.mask[games], mirrored[t][games]
                )  # fmt: skip
            column[t] = np.where(boards.legal(), log_policy + random.gumbel(size=log_policy.shape), -np.inf).argmax(1)
            position[t], mask[t], value[t], own[t] = boards.position, boards.mask, values, ~theirs
            log_probability[t] = np.take_along_axis(log_policy, column[t][:, None], 1)[:, 0]
            status = boards.step(column[t])
            ended = status != RUNNING
            reward[t], over[t] = status == WON, ended
            finished += int(ended.sum())
            boards.reset(ended)
            self._choose_opponents(ended, random)
        _, last_values = self._evaluate(self.network, boards.position, boards.mask, np.zeros(len(boards), bool))
        rollout = Rollout(position, mask, column, log_probability, value, reward, over, own, mirrored)
        return rollout, last_values, finished

    def _learn(
        self, rollout: Rollout, advantage: Array, value_target: Array, learning_rate: float,
        random: np.random.Generator,
    ) -> list[list[float]]:  # fmt: skip
        """Do several passes over the moves and return the numbers of `PpoLoss` for each mini-batch."""
        moves = Rollout(*(array.reshape(-1) for array in vars(rollout).values()))
        advantage, value_target = advantage.reshape(-1), value_target.reshape(-1)
        advantage = (advantage - advantage[moves.own].mean()) / (advantage[moves.own].std() + 1e-8)
        size = max(1, self.settings.batch // self.ranks.world)
        losses = []
        self.network.train()
        for _ in range(self.options.epochs):
            order = random.permutation(len(value_target))
            for start in range(0, len(order), size):
                batch = order[start : start + size]
                flipped, column = moves.mirrored[batch], moves.column[batch]
                planes, legal = mirrored_inputs(moves.position[batch], moves.mask[batch], self.boards.shape, flipped)
                column = np.where(flipped, legal.shape[1] - 1 - column, column)
                tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in (planes, legal, column)]
                for array in (moves.log_probability, advantage, value_target, moves.own):
                    tensors.append(torch.from_numpy(array[batch].astype(np.float32)))
                parts = self.loss(*(tensor.to(self.ranks.device) for tensor in tensors))
                parts[0].backward()
                apply_gradients(self.network, self.optimizer, learning_rate, self.settings.clip)
                losses.append(parts.detach().tolist())
        return losses

    def _evaluate(self, network: models.BoardNet, position: Array, mask: Array, mirrored: Array) -> tuple[Array, Array]:
        """Return log-probabilities by column of the unmirrored board, and values."""
        planes, legal = mirrored_inputs(position, mask, self.boards.shape, mirrored)
        with torch.no_grad():
            output = network(torch.from_numpy(planes).to(self.ranks.device))
            illegal = ~torch.from_numpy(legal).to(self.ranks.device)
            log_policy = output.policy.masked_fill(illegal, -1e9).log_softmax(-1).cpu().numpy().astype(np.float64)
        values = output.value[:, 0].cpu().numpy().astype(np.float64)
        return np.where(mirrored[:, None], log_policy[:, ::-1], log_policy), values

    def _choose_opponents(self, started: Array, random: np.random.Generator) -> None:
        """Choose the opponents of the games that have just started."""
        if self.pool:
            count = int(started.sum())
            index = random.integers(len(self.pool), size=count)
            self.opponent[started] = np.where(random.random(count) < self.options.pool_share, index, -1)
            self.side[started] = random.integers(2, size=count)

    def _add_to_pool(self) -> None:
        self.pool.append({name: value.detach().cpu().clone() for name, value in self.network.state_dict().items()})
        if len(self.pool) > self.options.pool:
            del self.pool[0]
            self.opponent = np.maximum(self.opponent - 1, -1)
        self.pool_networks.clear()

    def _pool_network(self, index: int) -> models.BoardNet:
        if index not in self.pool_networks:
            network = copy.deepcopy(self.network)
            network.load_state_dict(self.pool[index])
            self.pool_networks[index] = network.eval()
        return self.pool_networks[index]

    def network_for_evaluation(self) -> models.BoardNet:
        """Return a copy of the network."""
        return copy.deepcopy(self.network).eval()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the games in progress and the pool."""
        games = {name: torch.from_numpy(array) for name, array in self._game_arrays().items()}
        pool = {f"pool.{n}.{name}": value for n, weights in enumerate(self.pool) for name, value in weights.items()}
        return {**games, **pool}, {"pool": len(self.pool)}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore the games in progress and the pool that `state` returned."""
        for name, array in self._game_arrays().items():
            array[:] = np.resize(tensors[name].numpy(), array.shape)  # another number of processes has other games
        self.pool = [
            {name.split(".", 2)[2]: value for name, value in tensors.items() if name.startswith(f"pool.{n}.")}
            for n in range(int(values["pool"]))
        ]
        self.pool_networks.clear()

    def _game_arrays(self) -> dict[str, Array]:
        boards = self.boards
        return {"position": boards.position, "mask": boards.mask, "opponent": self.opponent, "side": self.side}
