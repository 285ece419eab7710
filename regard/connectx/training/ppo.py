"""PPO by self-play: many games at once, each move by lot from the policy, then a few passes over what was played.

The two sides take turns, so the value of the next position counts against the one who moves. With r = 1 for the move
that wins and V for the side to move,

    δₜ = rₜ − γ · V(sₜ₊₁) − V(sₜ)              (V = 0 after the end)
    Aₜ = δₜ − γλ · Aₜ₊₁                         generalised advantage estimation, the sign turning with the side
    Rₜ = Aₜ + V(sₜ)                             what the value learns

    policy loss   −mean min(ρ·A, clip(ρ, 1 ± ε)·A),  ρ = π(a) / π_old(a)
    loss          policy loss + c_v · (V − R)² − c_e · entropy

Half of the positions are shown mirrored, in play and in learning alike, since the policy need not be the same for both.
In a part of the games one side is a past self from a pool; its moves are not learnt from. The state of the games, the
pool and the optimizer are in the checkpoint, so a stopped run goes on as it would have.
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
from regard.connectx.game.board_batch import DRAWN, RUNNING, WON, Boards
from regard.connectx.training.distillation import shown
from regard.connectx.training.loop import Metrics

Array = NDArray[Any]


@dataclass(frozen=True)
class PpoOptions:
    """How PPO plays and learns.

    games           that run side by side
    moves           of each game between two updates
    epochs          passes over what was played
    discount        γ
    trace           λ of the advantages
    clip            ε: how far the policy may move in one update
    value_weight    c_v
    entropy_weight  c_e
    pool            past selves that are kept
    pool_every      updates after which one is added
    pool_share      of the games that are played against one of them
    """

    games: int = 256
    moves: int = 16
    epochs: int = 2
    discount: float = 1.0
    trace: float = 0.9
    clip: float = 0.2
    value_weight: float = 0.5
    entropy_weight: float = 0.01
    pool: int = 8
    pool_every: int = 10
    pool_share: float = 0.25

    def __post_init__(self) -> None:
        for name in ("games", "moves", "epochs", "pool", "pool_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        for name in ("discount", "trace", "pool_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must be 0 to 1, got {getattr(self, name)}")
        if self.clip <= 0:
            raise ValueError(f"clip must be more than 0, got {self.clip}")


@dataclass
class Played:
    """What was played since the last update, (moves, games) of each."""

    position: Array
    mask: Array
    column: Array
    chance: Array  # log of the probability that the policy gave the move
    value: Array
    reward: Array
    over: Array
    mine: Array  # whether the network that learns made the move
    turned: Array  # whether it was shown the mirror image


def advantages(played: Played, last: Array, discount: float, trace: float) -> Array:
    """A of every move; `last` are the values of the positions that came after the last moves.

    >>> one = lambda x: np.array([[x]])
    >>> won = Played(*[one(0)] * 4, one(0.25), one(1.0), *[one(True)] * 3)
    >>> advantages(won, np.array([0.9]), 1.0, 0.9)
    array([[0.75]])
    """
    found = np.zeros(played.value.shape)
    later, after = np.zeros(len(last)), last
    for t in range(len(found) - 1, -1, -1):
        goes_on = ~played.over[t].astype(bool)
        delta = played.reward[t] - discount * after * goes_on - played.value[t]
        later = delta - discount * trace * later * goes_on
        found[t], after = later, played.value[t]
    return found


class PpoLoss(nn.Module):
    """Loss and what is said of it, for one mini-batch."""

    def __init__(self, net: models.BoardNet, options: PpoOptions) -> None:
        super().__init__()
        self.net, self.options = net, options

    def forward(
        self, planes: Tensor, legal: Tensor, column: Tensor, chance: Tensor, advantage: Tensor, goal: Tensor,
        mine: Tensor,
    ) -> Tensor:  # fmt: skip
        judged = self.net(planes)
        logs = judged.policy.masked_fill(~legal, -1e9).log_softmax(-1)
        drift = logs.gather(1, column[:, None])[:, 0] - chance
        ratio = drift.exp()
        low, high = 1 - self.options.clip, 1 + self.options.clip
        count = mine.sum().clamp(min=1)
        gain = torch.minimum(ratio * advantage, ratio.clamp(low, high) * advantage)
        policy = -(gain * mine).sum() / count
        value = (judged.value[:, 0] - goal).square().mean()
        entropy = -((logs.exp() * logs).sum(-1) * mine).sum() / count
        total = policy + self.options.value_weight * value - self.options.entropy_weight * entropy
        with torch.no_grad():
            kl = ((ratio - 1 - drift) * mine).sum() / count
            clipped = (((ratio < low) | (ratio > high)) * mine).sum() / count
        return torch.stack((total, policy, value, entropy, kl, clipped))


class Ppo:
    """The method: see the module."""

    def __init__(
        self, net: models.BoardNet, settings: training.Settings, ranks: training.Ranks, options: PpoOptions,
        size: tuple[int, int, int] = (6, 7, 4),
    ) -> None:  # fmt: skip
        if net.config.norm == "batch":
            raise ValueError(
                "PPO compares what the network said in play with what it says in training, and batch norms differ "
                'between the two; take norm="group" or "none"'
            )
        self.net, self.settings, self.ranks, self.options = net.to(ranks.device), settings, ranks, options
        self.optimizer = training.optimizer_of(net, settings, ranks.device)
        self.loss = ranks.shared(PpoLoss(net, options))
        self.boards = Boards(max(1, options.games // ranks.world), *size)
        self.pool: list[dict[str, Tensor]] = []
        self.opponent = np.full(len(self.boards), -1)  # of each game: the place in the pool, −1 for itself
        self.side = np.zeros(len(self.boards), np.int64)  # which player the past self is: 0 moves first
        self.selves: dict[int, models.BoardNet] = {}

    def update(self, step: int, rate: float, share: float) -> Metrics:
        """Play, then learn from it."""
        random = np.random.default_rng([self.settings.seed, step, self.ranks.rank])
        if step % self.options.pool_every == 0:
            self._join_pool()
        began = time.monotonic()
        played, last, ended = self._play(random)
        seconds = time.monotonic() - began
        found = advantages(played, last, self.options.discount, self.options.trace)
        goal = found + played.value
        rows = self._learn(played, found, goal, rate, random)
        spread = float(np.var(goal))
        names = ("loss", "policy_loss", "value_loss", "entropy", "kl", "clip_share")
        games, positions = self.ranks.total(ended, played.value.size)
        means = self.ranks.total(*np.mean(rows, axis=0).tolist())
        row: Metrics = {name: value / self.ranks.world for name, value in zip(names, means, strict=True)}
        row["explained_variance"] = 1 - float(np.var(goal - played.value)) / spread if spread > 0 else 0.0
        row["games_per_second"] = games / max(time.monotonic() - began, 1e-9)
        row["play_seconds"] = seconds
        return {**row, "positions": positions}

    def _play(self, random: np.random.Generator) -> tuple[Played, Array, int]:
        """Some moves of every game, the values of where they lead, and how many games ended."""
        boards, shape = self.boards, (self.options.moves, len(self.boards))
        position, mask, column = (np.zeros(shape, np.int64) for _ in range(3))
        chance, value, reward = (np.zeros(shape) for _ in range(3))
        over, mine = np.zeros(shape, bool), np.zeros(shape, bool)
        turned = random.random(shape) < 0.5
        played = Played(position, mask, column, chance, value, reward, over, mine, turned)
        ended = 0
        self.net.eval()
        for t in range(self.options.moves):
            legal = boards.legal()
            logs, values = self._judged(self.net, boards.position, boards.mask, turned[t])
            theirs = (self.opponent >= 0) & (boards.stones() % 2 == self.side)
            for place in np.unique(self.opponent[theirs]).tolist():
                which = np.flatnonzero(theirs & (self.opponent == place))
                logs[which], _ = self._judged(
                    self._self(place), boards.position[which], boards.mask[which], turned[t][which]
                )  # fmt: skip
            noise = random.gumbel(size=logs.shape)
            column[t] = np.where(legal, logs + noise, -np.inf).argmax(1)
            position[t], mask[t], value[t], mine[t] = boards.position, boards.mask, values, ~theirs
            chance[t] = np.take_along_axis(logs, column[t][:, None], 1)[:, 0]
            status = boards.step(column[t])
            done = status != RUNNING
            reward[t], over[t] = status == WON, done
            assert np.isin(status, (RUNNING, WON, DRAWN)).all()
            ended += int(done.sum())
            boards.reset(done)
            self._seat(done, random)
        nothing = np.zeros(len(boards), bool)
        _, last = self._judged(self.net, boards.position, boards.mask, nothing)
        return played, last, ended

    def _learn(
        self, played: Played, advantage: Array, goal: Array, rate: float, random: np.random.Generator
    ) -> list[list[float]]:
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        flat = [array.reshape(-1) for array in (played.position, played.mask, played.column, played.chance)]
        given, target, mine = advantage.reshape(-1), goal.reshape(-1), played.mine.reshape(-1)
        mirrored = played.turned.reshape(-1)
        given = (given - given[mine].mean()) / (given[mine].std() + 1e-8)
        size = max(1, self.settings.batch // self.ranks.world)
        rows = []
        self.net.train()
        for _ in range(self.options.epochs):
            order = random.permutation(len(target))
            for start in range(0, len(order), size):
                here = order[start : start + size]
                turned = mirrored[here]
                planes, legal = shown(flat[0][here], flat[1][here], self.boards.shape, turned)
                column = np.where(turned, legal.shape[1] - 1 - flat[2][here], flat[2][here])
                floats = (flat[3][here], given[here], target[here], mine[here])
                tensors = [torch.from_numpy(np.ascontiguousarray(array)) for array in (planes, legal, column)]
                tensors += [torch.from_numpy(array.astype(np.float32)) for array in floats]
                found = self.loss(*(tensor.to(self.ranks.device) for tensor in tensors))
                found[0].backward()
                nn.utils.clip_grad_norm_(self.net.parameters(), self.settings.clip)
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
                rows.append(found.detach().tolist())
        return rows

    def _judged(self, net: models.BoardNet, position: Array, mask: Array, turned: Array) -> tuple[Array, Array]:
        """Logs of probabilities, by column as the board stands, and values."""
        planes, may = shown(position, mask, self.boards.shape, turned)
        with torch.no_grad():
            judged = net(torch.from_numpy(planes).to(self.ranks.device))
            logs = judged.policy.masked_fill(~torch.from_numpy(may).to(self.ranks.device), -1e9).log_softmax(-1)
        found = logs.cpu().numpy().astype(np.float64)
        return (
            np.where(turned[:, None], found[:, ::-1], found),
            judged.value[:, 0].cpu().numpy().astype(np.float64),
        )

    def _seat(self, done: Array, random: np.random.Generator) -> None:
        """Whom the games that begin anew are played against."""
        if self.pool:
            count = int(done.sum())
            past = random.integers(len(self.pool), size=count)
            self.opponent[done] = np.where(random.random(count) < self.options.pool_share, past, -1)
            self.side[done] = random.integers(2, size=count)

    def _join_pool(self) -> None:
        self.pool.append({name: value.detach().cpu().clone() for name, value in self.net.state_dict().items()})
        if len(self.pool) > self.options.pool:
            del self.pool[0]
            self.opponent = np.maximum(self.opponent - 1, -1)
        self.selves.clear()

    def _self(self, place: int) -> models.BoardNet:
        if place not in self.selves:
            net = copy.deepcopy(self.net)
            net.load_state_dict(self.pool[place])
            self.selves[place] = net.eval()
        return self.selves[place]

    def graded(self) -> models.BoardNet:
        """The network as it is."""
        return copy.deepcopy(self.net).eval()

    def remembered(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The games as they stand, and the pool."""
        arrays = (self.boards.position, self.boards.mask, self.opponent, self.side)
        games = dict(zip(("position", "mask", "opponent", "side"), map(torch.from_numpy, arrays), strict=True))
        pool = {f"pool.{n}.{name}": value for n, one in enumerate(self.pool) for name, value in one.items()}
        return {**games, **pool}, {"pool": len(self.pool)}

    def recall(self, tensors: dict[str, Tensor], kept: dict[str, Any]) -> None:
        """Take them back."""
        for name, array in (("position", self.boards.position), ("mask", self.boards.mask),
                            ("opponent", self.opponent), ("side", self.side)):  # fmt: skip
            array[:] = tensors[name].numpy()
        self.pool = [
            {name.split(".", 2)[2]: value for name, value in tensors.items() if name.startswith(f"pool.{n}.")}
            for n in range(int(kept["pool"]))
        ]
        self.selves.clear()
