"""Distillation: a network learns from positions in which the solver has scored every move.

    policy    cross-entropy with softmax(5 · class + ¼ · score): moves that keep the value get nearly all of the
              probability, and among them the best ones (fastest win, slowest loss) get the most. To this is added, with
              a larger weight, −log(total probability of the moves that keep the value), because it matters more whether
              a move is a mistake than which of the good moves it is
    value     (v − class of the best move)²
    score     Huber loss of each move's score / 10, weighted by 3

The class of a move is 1 for a win, 0 for a draw, −1 for a loss.

Which positions are drawn:

- Each number of stones gets a share of the batches proportional to the square root of the number of such positions,
  so that the few first openings are seen often enough and the many later ones are not neglected. Positions with many
  stones (last third) are easy and get less, those with few stones (first third) are hard and get more.
- Among positions with the same number of stones, those whose end is far away are drawn more often
  (`sampling_weights`): half of all positions are decided within seven moves and are learnt quickly.
- In half of all positions every move leads to the same value. They teach no move and are drawn less often; the losses
  of their value and scores are weighted up in return.
- Half of the drawn positions are mirrored.

Evaluation and play use the moving average of the weights over about the last thousand updates.
"""

import copy
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from regard import models
from regard.connectx.data.label_storage import FULL, Labels
from regard.connectx.game.bitboard import Shape
from regard.connectx.game.board_batch import free_columns, planes_of
from regard.models.board.any_network import board_output
from regard.training.distributed import Ranks
from regard.training.metrics import Metrics
from regard.training.optimizers import apply_gradients, make_optimizer
from regard.training.settings import Settings

CLASS_LOGIT, SCORE_LOGIT = 5.0, 0.25  # logit of a move's target per class and per point of its score
TARGET_WEIGHT, KEEPING_WEIGHT = 0.5, 2.0  # weights of the two terms of the policy loss
SCORE_SCALE, SCORE_WEIGHT = 10.0, 3.0  # scores are divided by the first; the second weights their loss
EARLY, LATE = 1.5, 0.25  # factors for positions in the first and in the last third of a game, by number of stones
SETTLED = 0.25  # factor of the sampling weight of positions in which all moves have the same value
FAR, NEAR = 21, 0.2  # moves to the end from which the sampling weight is 1, and the lowest sampling weight
DECAY = 0.999  # decay of the averaged weights

Batch = tuple[Tensor, ...]


class LabelBatches:
    """Batches of labelled positions; the batch of a step depends on its number only.

    labels      labelled positions
    batch       number of positions of a batch
    seed        seed of the batches

    >>> from regard.connectx.data.label_storage import Labels
    >>> from regard.connectx import Board
    >>> board = Board.from_moves("445566")
    >>> one = lambda value: np.array([value])
    >>> labels = Labels(board.shape, one(board.position), one(board.mask), np.zeros((1, 7), np.int8), one(0))
    >>> planes, legal, policy, value, score, weight, keeps = LabelBatches(labels, batch=4, seed=0)(0)
    >>> planes.shape, policy.sum(-1)
    (torch.Size([4, 2, 6, 7]), tensor([1., 1., 1., 1.]))
    """

    def __init__(self, labels: Labels, batch: int, seed: int) -> None:
        if not len(labels):
            raise ValueError("training needs at least one label, got none; make labels with regard connectx label")
        order = np.argsort(labels.stones, kind="stable")
        self.labels, self.batch, self.seed = labels[order], batch, seed
        self.settled = all_moves_equal(self.labels.scores)
        plies, first, count = np.unique(self.labels.stones, return_index=True, return_counts=True)
        third = np.minimum(3 * plies // (labels.shape.rows * labels.shape.columns), 2)
        share = np.sqrt(count) * np.array([EARLY, 1.0, LATE])[third]
        weight = sampling_weights(self.labels) * np.where(self.settled, SETTLED, 1.0)
        weight *= np.repeat(share / np.add.reduceat(weight, first), count)
        self.cumulative = weight.cumsum() / weight.sum()  # cumulative probability of the labels

    def draw(self, step: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Return the indices of the labels of a step, and which of them are mirrored."""
        random = np.random.default_rng([self.seed, step])
        indices = np.searchsorted(self.cumulative, random.random(self.batch), "right")
        return np.minimum(indices, len(self.cumulative) - 1), random.random(self.batch) < 0.5

    def __call__(self, step: int, part: slice = slice(None)) -> Batch:
        """Return the arguments of `DistillationLoss` for a part of the batch of a step."""
        indices, mirrored = self.draw(step)
        indices, mirrored = indices[part], mirrored[part]
        weight = np.where(self.settled[indices], 1 / SETTLED, 1.0).astype(np.float32)
        batch = label_tensors(self.labels[indices], mirrored)
        _, legal, _, value, score = batch
        return (*batch, torch.from_numpy(weight[:, None]), legal & (score.sign() == value))


def all_moves_equal(scores: NDArray[np.int8]) -> NDArray[np.bool_]:
    """Return for each position (N,) whether all moves win, all draw or all lose.

    >>> all_moves_equal(np.array([[3, FULL, 1], [2, 0, -1]], np.int8))
    array([ True, False])
    """
    classes, legal = np.sign(scores), scores != FULL
    return np.where(legal, classes, -2).max(1) == np.where(legal, classes, 2).min(1)


def sampling_weights(labels: Labels) -> NDArray[np.float64]:
    """Return the sampling weight of each label (N,): it grows with the number of moves to the end in perfect play.

    >>> from regard.connectx import Board
    >>> boards = [Board(), Board.from_moves("4141"), Board.from_moves("415161")]      # a win after 41 moves, 3, and 1
    >>> position, mask = (np.array([getattr(board, bits) for board in boards]) for bits in ("position", "mask"))
    >>> scores = np.array([[-2, -1, 0, 1, 0, -1, -2], [-2, -1, 18, 1, 18, 1, -2], [-2, -1, 18, 0, 0, 0, 18]], np.int8)
    >>> sampling_weights(Labels(boards[0].shape, position, mask, scores, np.zeros(3, np.uint8)))
    array([1. , 0.2, 0.2])
    """
    best = labels.scores.max(1).astype(np.int64)
    free = labels.shape.rows * labels.shape.columns - labels.stones
    # A score is 1 plus the number of stones the winner has left. Two numbers of moves fit; the winner's parity decides.
    moves = free - 2 * np.abs(best) + 2
    moves = np.where(best == 0, free, moves - (moves % 2 != (best > 0)))
    return np.clip(moves / FAR, NEAR, 1.0)


def label_tensors(labels: Labels, mirrored: NDArray[np.bool_] | None = None) -> Batch:
    """Return planes, legal columns and the targets of policy, value and score, mirrored where `mirrored` is True."""
    mirrored = np.zeros(len(labels), bool) if mirrored is None else mirrored
    planes, _ = mirrored_inputs(labels.position, labels.mask, labels.shape, mirrored)
    scores = np.where(mirrored[:, None], labels.scores[:, ::-1], labels.scores).astype(np.float32)
    legal = scores != FULL
    logits = np.where(legal, CLASS_LOGIT * np.sign(scores) + SCORE_LOGIT * scores, -np.inf)
    policy = np.exp(logits - logits.max(1, keepdims=True))
    policy /= policy.sum(1, keepdims=True)
    value = np.sign(np.where(legal, scores, -np.inf).max(1, keepdims=True))
    arrays = (planes, legal, policy.astype(np.float32), value, np.where(legal, scores / SCORE_SCALE, 0))
    return tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in arrays)


def mirrored_inputs(
    position: NDArray[np.int64], mask: NDArray[np.int64], shape: Shape, mirrored: NDArray[np.bool_]
) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
    """Return planes and legal columns (N, columns) of positions (N,), mirrored where `mirrored` is True."""
    planes, legal = planes_of(position, mask, shape), free_columns(mask, shape)
    planes = np.where(mirrored[:, None, None, None], planes[..., ::-1], planes)
    return np.ascontiguousarray(planes), np.where(mirrored[:, None], legal[:, ::-1], legal)


class DistillationLoss(nn.Module):
    """Policy, value and score loss of a network, each averaged over the batch.

    The network is any module that maps planes to policy and value (`regard/models/board/any_network.py`).

    >>> from regard.connectx import Board, Labels
    >>> empty = np.zeros(1, np.int64)
    >>> scores = np.array([[-2, -1, 0, 1, 0, -1, -2]], np.int8)
    >>> labels = Labels(Board().shape, empty, empty, scores, np.zeros(1, np.uint8))
    >>> DistillationLoss(models.BoardNet("tiny"))(*LabelBatches(labels, batch=4, seed=0)(0)).shape   # policy, value
    torch.Size([2])
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, planes: Tensor, legal: Tensor, policy: Tensor, value: Tensor, score: Tensor, weight: Tensor | None = None,
        keeps: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Return the losses.

        `weight` (N, 1) weights the value and score losses of each position; equal weights if None. `keeps`
        (N, columns) marks the moves that keep the value and adds the second term of the policy loss.
        """
        output = board_output(self.network(planes), planes)
        log_policy = output.policy.masked_fill(~legal, -1e9).log_softmax(-1)
        share = torch.ones_like(value) if weight is None else weight / weight.mean()
        policy_loss = -(policy * log_policy).sum(-1).mean()
        if keeps is not None:
            log_keeping = log_policy.masked_fill(~keeps, -1e9).logsumexp(-1)
            policy_loss = TARGET_WEIGHT * policy_loss - KEEPING_WEIGHT * log_keeping.mean()
        losses = [policy_loss, (share * (output.value - value).square()).mean()]
        if output.score is not None:
            if output.score.shape == score.shape:
                scores, targets = output.score * legal, score
            else:  # the network predicts one number: the score of the best move
                scores, targets = output.score, score.masked_fill(~legal, -1e9).amax(-1, keepdim=True)
            losses.append(SCORE_WEIGHT * (share * F.smooth_l1_loss(scores, targets, reduction="none")).mean())
        return torch.stack(losses)


class WeightAverage:
    """Exponential moving average of the weights and buffers of a network."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network
        self.tensors = {name: value.detach().clone() for name, value in network.state_dict().items()}

    def update(self, decay: float) -> None:
        """Replace each average by decay · average + (1 − decay) · current value."""
        current = self.network.state_dict()
        means = {name: value for name, value in self.tensors.items() if value.is_floating_point()}
        torch._foreach_lerp_(list(means.values()), [current[name] for name in means], 1 - decay)
        for name in self.tensors.keys() - means.keys():  # such as the number of batches that a norm has seen
            self.tensors[name].copy_(current[name])

    def averaged_network(self) -> Any:
        """Return a copy of the network with averaged weights, in eval mode."""
        network = copy.deepcopy(self.network)
        network.load_state_dict(self.tensors)
        return network.eval()

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Restore the averages from tensors by parameter name."""
        for name, value in tensors.items():
            self.tensors[name].copy_(value)


@dataclass
class Distillation:
    """Distillation as an algorithm of the training loop; the module's docstring describes it."""

    network: models.BoardNet
    batches: LabelBatches
    settings: Settings
    ranks: Ranks
    head_schedule: models.HeadSchedule | None = None
    unit: ClassVar[str] = "positions"

    def __post_init__(self) -> None:
        self.network.to(self.ranks.device).train()
        self.optimizer = make_optimizer(self.network, self.settings, self.ranks.device)
        self.loss = self.ranks.average_gradients(DistillationLoss(self.network))
        self.average = WeightAverage(self.network)

    def update(self, step: int, learning_rate: float, progress: float) -> Metrics:
        """Do one optimizer step on one batch."""
        if self.head_schedule is not None:
            self.head_schedule.apply(self.network, min(1.0, progress))
        self.network.train()
        batch = self.batches(step, slice(self.ranks.rank, None, self.ranks.world))
        losses = self.loss(*(tensor.to(self.ranks.device) for tensor in batch))
        loss = losses.sum()
        loss.backward()
        norm = apply_gradients(self.network, self.optimizer, learning_rate, self.settings.clip)
        self.average.update(min(DECAY, (1 + step) / (10 + step)))
        parts = dict(zip(("policy_loss", "value_loss", "score_loss"), losses.detach(), strict=False))
        return {"loss": loss.detach(), **parts, "gradient_norm": norm, "positions": self.batches.batch}

    def network_for_evaluation(self) -> models.BoardNet:
        """Return the network with averaged weights."""
        return self.average.averaged_network()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return the averaged weights."""
        return dict(self.average.tensors), {}

    def load_state(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore the averaged weights."""
        self.average.load(tensors)
