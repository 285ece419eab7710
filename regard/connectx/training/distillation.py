"""Distillation: a network learns from positions whose every move the solver has scored.

    policy    cross-entropy with softmax(5 · class + ¼ · score): moves that keep the value share nearly all of it, and
              among them the perfect ones (the soonest win, the latest loss) have the most; and, for more,
              −log(what all moves that keep the value have together): whether a move errs counts for more than which
              of the good ones it is
    value     (v − class of the best move)²
    score     Huber loss of each move's score / 10, three times

A class is 1 for a win, 0 for a draw, −1 for a loss. A number of stones gets a share of the batches that grows with the
square root of how many such positions there are: the first openings, which are few, are not lost among the rest, nor
are the hundred thousands with eight and nine stones met less often than is needed to learn them. End games (the last
third of the board) are learnt first and get less, openings (the first third) last and get more.

Of positions with as many stones, those are drawn most that teach most. Of two, one is over within seven moves, and is
played right soon; mistakes are made where the end is far: a position is drawn by how far it is (`draws`). Of two, one
is worth the same whatever is played. It teaches no move and is drawn less often; what it does teach, its value and
scores, then counts for more. Half of the positions are mirrored.

What is used is the moving average of the weights over the last thousand updates or so.
"""

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard import models, training
from regard.connectx.data.labels import FULL, Labels
from regard.connectx.game.bitboard import Shape
from regard.connectx.game.board_batch import free_columns, planes_of
from regard.connectx.training.loop import Metrics

CLASS, SCORE = 5.0, 0.25  # what a class and a point of the score add to a move's logit in the target
TARGET, KEEPING = 0.5, 2.0  # what the target counts in the policy's loss, and what keeping the value
SCORE_SCALE, SCORES = 10.0, 3.0  # scores are told as a tenth; what their loss counts
EARLY, LATE = 1.5, 0.25  # what a number of stones gets more in the first third of the board, and less in the last
SETTLED = 0.25  # how often a position is drawn all of whose moves are worth the same, beside others
FAR, NEAR = 21, 0.2  # moves to the end from which on a position is drawn in full, and how often at least, beside it
AVERAGE = 0.999

Lot = tuple[Tensor, ...]


class Deck:
    """Batches of labelled positions, each from its number.

    >>> from regard.connectx.data.labels import Labels
    >>> from regard.connectx import Board
    >>> board = Board.from_moves("445566")
    >>> one = lambda value: np.array([value])
    >>> labels = Labels(board.shape, one(board.position), one(board.mask), np.zeros((1, 7), np.int8), one(0))
    >>> planes, legal, policy, value, score, weight, keeps = Deck(labels, batch=4, seed=0)(0)
    >>> planes.shape, policy.sum(-1)
    (torch.Size([4, 2, 6, 7]), tensor([1., 1., 1., 1.]))
    """

    def __init__(self, labels: Labels, batch: int, seed: int) -> None:
        if not len(labels):
            raise ValueError("there is nothing to learn from: the folder holds no labels; see regard connectx label")
        order = np.argsort(labels.stones, kind="stable")
        self.labels, self.batch, self.seed = labels[order], batch, seed
        self.settled = all_alike(self.labels.scores)
        plies, first, count = np.unique(self.labels.stones, return_index=True, return_counts=True)
        third = np.minimum(3 * plies // (labels.shape.rows * labels.shape.columns), 2)
        share = np.sqrt(count) * np.array([EARLY, 1.0, LATE])[third]
        weight = draws(self.labels) * np.where(self.settled, SETTLED, 1.0)
        weight *= np.repeat(share / np.add.reduceat(weight, first), count)
        self.reaches = weight.cumsum() / weight.sum()  # up to which number, of 0 … 1, each label is drawn

    def places(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Which labels make up the batch of a step, and which of them are mirrored."""
        random = np.random.default_rng([self.seed, step])
        places = np.searchsorted(self.reaches, random.random(self.batch), "right")
        return np.minimum(places, len(self.reaches) - 1), random.random(self.batch) < 0.5

    def __call__(self, step: int, part: slice = slice(None)) -> Lot:
        """Planes, legal columns, the targets of policy, value and score, what the last two count, and which moves lose
        nothing."""
        places, turned = self.places(step)
        places, turned = places[part], turned[part]
        weight = np.where(self.settled[places], 1 / SETTLED, 1.0).astype(np.float32)
        lot = tensors_of(self.labels[places], turned)
        _, legal, _, value, score = lot
        return (*lot, torch.from_numpy(weight[:, None]), legal & (score.sign() == value))


def all_alike(scores: NDArray[np.int8]) -> NDArray[np.bool_]:
    """(N,) whether every move wins, every move draws or every move loses.

    >>> all_alike(np.array([[3, FULL, 1], [2, 0, -1]], np.int8))
    array([ True, False])
    """
    kinds, legal = np.sign(scores), scores != FULL
    alike: NDArray[np.bool_] = np.where(legal, kinds, -2).max(1) == np.where(legal, kinds, 2).min(1)
    return alike


def draws(labels: Labels) -> NDArray[np.float64]:
    """(N,) how often each is drawn beside others with as many stones: by how far the end is, if nobody errs.

    >>> from regard.connectx import Board
    >>> boards = [Board(), Board.from_moves("4141"), Board.from_moves("415161")]      # a win after 41 moves, 3, and 1
    >>> position, mask = (np.array([getattr(board, bits) for board in boards]) for bits in ("position", "mask"))
    >>> scores = np.array([[-2, -1, 0, 1, 0, -1, -2], [-2, -1, 18, 1, 18, 1, -2], [-2, -1, 18, 0, 0, 0, 18]], np.int8)
    >>> draws(Labels(boards[0].shape, position, mask, scores, np.zeros(3, np.uint8)))
    array([1. , 0.2, 0.2])
    """
    best = labels.scores.max(1).astype(np.int64)
    free = labels.shape.rows * labels.shape.columns - labels.stones
    # A score is 1 plus the stones the winner has left: of two numbers of moves that leave so many, one is odd.
    moves = free - 2 * np.abs(best) + 2
    moves = np.where(best == 0, free, moves - (moves % 2 != (best > 0)))
    return np.clip(moves / FAR, NEAR, 1.0)


def tensors_of(labels: Labels, turned: NDArray[np.bool_] | None = None) -> Lot:
    """Labels as a network takes them, mirrored where asked for."""
    planes = planes_of(labels.position, labels.mask, labels.shape)
    scores = labels.scores.astype(np.float32)
    if turned is not None:
        planes = np.where(turned[:, None, None, None], planes[..., ::-1], planes)
        scores = np.where(turned[:, None], scores[:, ::-1], scores)
    legal = scores != FULL
    worth = np.where(legal, CLASS * np.sign(scores) + SCORE * scores, -np.inf)
    policy = np.exp(worth - worth.max(1, keepdims=True))
    policy /= policy.sum(1, keepdims=True)
    value = np.sign(np.where(legal, scores, -np.inf).max(1, keepdims=True))
    found = (planes, legal, policy.astype(np.float32), value, np.where(legal, scores / SCORE_SCALE, 0))
    return tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in found)


def shown(
    position: NDArray[np.int64], mask: NDArray[np.int64], shape: Shape, turned: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """What a network is shown of positions (N,): planes and legal columns (N, columns), mirrored where `turned`."""
    planes, legal = planes_of(position, mask, shape), free_columns(mask, shape)
    planes = np.where(turned[:, None, None, None], planes[..., ::-1], planes)
    return np.ascontiguousarray(planes), np.where(turned[:, None], legal[:, ::-1], legal)


class Lesson(nn.Module):
    """The losses of a network on a batch: policy, value, score, each a mean."""

    def __init__(self, net: models.BoardNet) -> None:
        super().__init__()
        self.net = net

    def forward(
        self,
        planes: Tensor,
        legal: Tensor,
        policy: Tensor,
        value: Tensor,
        score: Tensor,
        weight: Tensor | None = None,
        keeps: Tensor | None = None,
    ) -> Tensor:
        """`weight` (N, 1) says what values and scores of each position count; the same unless given. `keeps`
        (N, columns), the moves that lose nothing, are asked for besides the policy's target."""
        judged = self.net(planes)
        logits = judged.policy.masked_fill(~legal, -1e9)
        share = torch.ones_like(value) if weight is None else weight / weight.mean()
        chosen = logits.log_softmax(-1)
        first = -(policy * chosen).sum(-1).mean()
        if keeps is not None:
            first = TARGET * first - KEEPING * chosen.masked_fill(~keeps, -1e9).logsumexp(-1).mean()
        losses = [first, (share * (judged.value - value).square()).mean()]
        if judged.score is not None:
            if judged.score.shape == score.shape:
                found, wanted = judged.score * legal, score
            else:  # one number: that of the best move
                found, wanted = judged.score, score.masked_fill(~legal, -1e9).amax(-1, keepdim=True)
            losses.append(SCORES * (share * F.smooth_l1_loss(found, wanted, reduction="none")).mean())
        return torch.stack(losses)


@dataclass
class Distill:
    """The method: see the module."""

    net: models.BoardNet
    deck: Deck
    settings: training.Settings
    ranks: training.Ranks
    schedule: models.HeadSchedule | None = None

    def __post_init__(self) -> None:
        self.net.to(self.ranks.device).train()
        self.optimizer = training.optimizer_of(self.net, self.settings, self.ranks.device)
        self.lesson = self.ranks.shared(Lesson(self.net))
        self.average = {name: value.detach().clone() for name, value in self.net.state_dict().items()}

    def update(self, step: int, rate: float, share: float) -> Metrics:
        """One step of the optimizer on one batch."""
        if self.schedule is not None:
            self.schedule.apply(self.net, min(1.0, share))
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.net.train()
        lot = self.deck(step, slice(self.ranks.rank, None, self.ranks.world))
        losses = self.lesson(*(tensor.to(self.ranks.device) for tensor in lot))
        loss = losses.sum()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), self.settings.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        kept = min(AVERAGE, (1 + step) / (10 + step))
        now = self.net.state_dict()
        torch._foreach_lerp_(list(self.average.values()), [now[name] for name in self.average], 1 - kept)
        total, *parts = self.ranks.total(float(loss.detach()), *losses.detach().tolist())
        names = ("policy_loss", "value_loss", "score_loss")
        row = {name: part / self.ranks.world for name, part in zip(names, parts, strict=False)}
        return {
            "loss": total / self.ranks.world, **row, "gradient_norm": float(norm), "positions": self.deck.batch
        }  # fmt: skip

    def graded(self) -> models.BoardNet:
        """The network with averaged weights."""
        net = copy.deepcopy(self.net)
        net.load_state_dict(self.average)
        return net.eval()

    def remembered(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The averaged weights."""
        return dict(self.average), {}

    def recall(self, tensors: dict[str, Tensor], kept: dict[str, Any]) -> None:
        """The averaged weights."""
        for name, value in tensors.items():
            self.average[name].copy_(value)
