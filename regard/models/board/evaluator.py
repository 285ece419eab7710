"""Positions of many games, judged together: NumPy in, NumPy out, safe to share between threads.

A network is much faster on many positions than on one. Games that run in threads and share an evaluator need not know
of each other: while one call computes, the others queue up, and whoever comes next computes for all who wait.
"""

from __future__ import annotations

import copy
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from regard.models.board.network import BoardNet

Floats = NDArray[np.float32]


class Evaluation(NamedTuple):
    """What an evaluator says of N positions."""

    policy: Float[np.ndarray, "n columns"]  # probabilities; 0 for what is not legal
    value: Float[np.ndarray, " n"]  # in [−1, 1], for the side whose stones are in plane 0
    score: Float[np.ndarray, "n _"] | None = None  # of networks that have one


class Evaluator:
    """A board network for use: planes (N, P, rows, columns) of any NumPy type → probabilities and values.

    net         its weights are copied, with the norms folded in: what it learns later needs another evaluator
    mirror      judge every position from both sides and take the mean; then mirrored positions have exactly
                mirrored judgements
    batch       the most positions computed at once

    >>> evaluator = Evaluator(BoardNet("tiny"), mirror=True)
    >>> planes = np.zeros((5, 2, 6, 7), np.uint8)
    >>> policy, value, _ = evaluator(planes, legal=np.arange(7)[None] < 6)
    >>> policy.shape, value.shape, policy[0, 6]
    ((5, 7), (5,), np.float32(0.0))
    """

    def __init__(self, net: BoardNet, *, mirror: bool = False, batch: int = 256) -> None:
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise ValueError(f"batch is how many positions are computed at once, at least 1, got {batch!r}")
        self.net, self.mirror, self.batch = net.for_inference(), mirror, batch
        self._waiting: list[_Request] = []
        self._door, self._turn = threading.Lock(), threading.Lock()

    def without_mirror(self) -> Evaluator:
        """Return an evaluator that shares this one's network and evaluates each position once, as it stands."""
        other = copy.copy(self)
        other.mirror, other._waiting = False, []
        other._door, other._turn = threading.Lock(), threading.Lock()
        return other

    def __call__(self, planes: NDArray[Any], legal: NDArray[np.bool_] | None = None) -> Evaluation:
        """Judge N positions.

        planes      (N, P, rows, columns)
        legal       booleans that broadcast to (N, columns): which columns may be played; all unless given.
                    A position in which none may be has probabilities 0
        """
        request = _Request(*_checked(planes, legal, self.net.config.planes))
        with self._door:
            self._waiting.append(request)
        with self._turn:
            if request.found is None:  # nobody has computed it while we waited for the turn
                with self._door:
                    requests, self._waiting = self._waiting, []
                self._serve(requests)
        if not isinstance(request.found, Evaluation):
            raise RuntimeError("the thread that computed for this one failed") from request.found
        return request.found

    def _serve(self, requests: list[_Request]) -> None:
        """Answer all requests, those of one board size in common batches."""
        try:
            for shape in dict.fromkeys(request.planes.shape[1:] for request in requests):
                alike = [request for request in requests if request.planes.shape[1:] == shape]
                found = self._judge(
                    np.concatenate([request.planes for request in alike]),
                    np.concatenate([request.legal for request in alike]),
                )
                end = 0
                for request in alike:
                    start, end = end, end + len(request.planes)
                    score = None if found.score is None else found.score[start:end]
                    request.found = Evaluation(found.policy[start:end], found.value[start:end], score)
        except BaseException as error:
            for request in requests:
                request.found = request.found or error
            raise

    def _judge(self, planes: Floats, legal: NDArray[np.bool_]) -> Evaluation:
        if not self.mirror:
            return self._run(planes, legal)
        # Both sides are computed in an order that does not depend on which of them was asked for: then the rounding
        # does not either.
        turned, count = _turned(planes), len(planes)
        planes, legal = _mirror(planes, turned), _mirror(legal, turned)
        both = self._run(np.concatenate([planes, planes[..., ::-1]]), np.concatenate([legal, legal[..., ::-1]]))

        def mean(found: Floats) -> Floats:
            return _mirror((found[:count] + found[count:, ::-1]) / 2, turned)

        value = (both.value[:count] + both.value[count:]) / 2
        return Evaluation(mean(both.policy), value, None if both.score is None else mean(both.score))

    def _run(self, planes: Floats, legal: NDArray[np.bool_]) -> Evaluation:
        """What the network says, `batch` positions at a time."""
        parts = [
            self._at_once(planes[i : i + self.batch], legal[i : i + self.batch])
            for i in range(0, len(planes), self.batch)
        ]
        policy, value, score = zip(*parts, strict=True)
        return Evaluation(
            np.concatenate(policy), np.concatenate(value), None if score[0] is None else np.concatenate(score)
        )

    def _at_once(self, planes: Floats, legal: NDArray[np.bool_]) -> Evaluation:
        with torch.inference_mode():
            given, may = (torch.from_numpy(np.ascontiguousarray(part)) for part in (planes, legal))
            judged = self.net(given, may)
            policy = judged.policy.softmax(-1).where(may, 0.0)  # NaN where there is no legal move at all
            score = None if judged.score is None else judged.score.numpy()
            return Evaluation(policy.numpy(), judged.value[:, 0].numpy(), score)


@dataclass
class _Request:
    planes: Floats
    legal: NDArray[np.bool_]
    found: Evaluation | BaseException | None = None


def _turned(planes: Floats) -> NDArray[np.bool_]:
    """(N,) whether a position comes after its mirror image, in the order of the first number that differs."""
    this, other = planes.reshape(len(planes), -1), planes[..., ::-1].reshape(len(planes), -1)
    first = (this != other).argmax(1)[:, None]
    turned: NDArray[np.bool_] = np.take_along_axis(this > other, first, 1)[:, 0]
    return turned


def _mirror(x: NDArray[Any], which: NDArray[np.bool_]) -> NDArray[Any]:
    """x (N, ..., columns), mirrored where asked for."""
    return np.where(which.reshape(-1, *[1] * (x.ndim - 1)), x[..., ::-1], x)


def _checked(planes: NDArray[Any], legal: NDArray[np.bool_] | None, count: int) -> tuple[Floats, NDArray[np.bool_]]:
    """Planes and legal columns as the network takes them, or an error for the caller, before others are involved."""
    planes = np.asarray(planes, np.float32)
    if planes.ndim != 4 or planes.shape[1] != count or planes.size == 0:
        raise ValueError(
            f"an evaluator takes planes of shape (N, {count}, rows, columns) with N of at least 1, got {planes.shape}; "
            "one position needs planes[None]"
        )
    shape = len(planes), planes.shape[-1]
    legal = np.ones(shape, np.bool_) if legal is None else np.asarray(legal)
    fits = legal.ndim <= 2 and all(a in (1, b) for a, b in zip(legal.shape[::-1], shape[::-1], strict=False))
    if legal.dtype != np.bool_ or not fits:
        raise ValueError(
            f"legal must be booleans that broadcast to (N, columns) = {shape}, got {legal.dtype} {legal.shape}"
        )
    return planes, np.broadcast_to(legal, shape)
