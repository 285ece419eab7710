"""Evaluate positions of many games together: NumPy in, NumPy out, usable from several threads.

A network is much faster on many positions than on one. Games that run in threads share an evaluator without knowing of
each other: while one thread computes, other calls are queued, and the next thread computes all queued positions. Small
batches are computed by onnxruntime if it is installed (`pip install "regard[onnx]"`, convert/board_to_onnx.py).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import nn

from regard.models.board.any_network import board_output, inference_copy
from regard.models.board.config import BoardConfig
from regard.models.board.network import BoardNet
from regard.models.convert.board_to_onnx import MAX_BOARDS, small_batches

Floats = NDArray[np.float32]


class Evaluation(NamedTuple):
    """Policy, value and score of N positions.

    policy      probabilities of the columns; 0 for illegal ones
    value       in [−1, 1], for the side whose stones are in plane 0
    score       predicted score; None unless the network has this output

    >>> Evaluator(BoardNet("tiny"))(np.zeros((2, 2, 6, 7))).value.shape
    (2,)
    """

    policy: Float[np.ndarray, "n columns"]
    value: Float[np.ndarray, " n"]
    score: Float[np.ndarray, "n _"] | None = None


class Evaluator:
    """Evaluate positions with a board network: planes (N, P, rows, columns) of any type → probabilities and values.

    net         a BoardNet, or any module or function that maps planes to policy and value (any_network.py). Weights are
                copied, with the norms of a BoardNet folded in; create another evaluator after further training
    mirror      evaluate every position and its mirror image and return the mean, so that mirrored positions have
                exactly mirrored evaluations
    batch       largest number of positions computed at once

    >>> evaluator = Evaluator(BoardNet("tiny"), mirror=True)
    >>> planes = np.zeros((5, 2, 6, 7), np.uint8)
    >>> policy, value, _ = evaluator(planes, legal=np.arange(7)[None] < 6)
    >>> policy.shape, value.shape, policy[0, 6]
    ((5, 7), (5,), np.float32(0.0))
    """

    def __init__(self, net: nn.Module | Callable[..., Any], *, mirror: bool = False, batch: int = 256) -> None:
        if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
            raise ValueError(f"batch must be a whole number of at least 1, got {batch!r}")
        self.net: Any = inference_copy(net)
        self.small_batches = small_batches(self.net) if isinstance(self.net, BoardNet) else None
        self.mirror, self.batch = mirror, batch
        config = getattr(net, "config", None)
        self.planes = config.planes if isinstance(config, BoardConfig) else None  # None: any number of planes
        self._create_queue()

    def _create_queue(self) -> None:
        self._queue: list[_Request] = []
        self._queue_lock, self._compute_lock = threading.Lock(), threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        """Return what is pickled: the network and the settings, but no queue."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._create_queue()

    def without_mirror(self) -> Evaluator:
        """Return an evaluator with the same network that does not evaluate mirror images (mirror=False)."""
        other = copy.copy(self)
        other.mirror = False
        other._create_queue()
        return other

    def in_table(self, planes: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which positions (N,) the network's opening table was taught."""
        table = getattr(self.net, "opening_table", None)
        if table is None or not table.few_stones(planes).any():  # most calls; the set of taught positions takes longer
            return np.zeros(len(planes), np.bool_)
        with torch.inference_mode():
            return np.asarray(table.covers(torch.from_numpy(np.ascontiguousarray(planes, np.float32))).numpy())

    def __call__(self, planes: NDArray[Any], legal: NDArray[np.bool_] | None = None) -> Evaluation:
        """Evaluate N positions.

        planes      (N, P, rows, columns)
        legal       booleans that broadcast to (N, columns): which columns may be played; None means all. A position
                    without a legal column has probabilities 0
        """
        request = _Request(*_check_input(planes, legal, self.planes))
        with self._queue_lock:
            self._queue.append(request)
        with self._compute_lock:
            if request.result is None:  # no other thread has computed the request while this one waited
                with self._queue_lock:
                    requests, self._queue = self._queue, []
                self._compute(requests)
        if not isinstance(request.result, Evaluation):
            raise RuntimeError("the network failed in the thread that evaluated this request") from request.result
        return request.result

    def _compute(self, requests: list[_Request]) -> None:
        """Compute all requests; positions on boards of one size are computed together."""
        try:
            for shape in dict.fromkeys(request.planes.shape[1:] for request in requests):
                group = [request for request in requests if request.planes.shape[1:] == shape]
                if len(group) == 1:
                    group[0].result = self._evaluate(group[0].planes, group[0].legal)
                    continue
                result = self._evaluate(
                    np.concatenate([request.planes for request in group]),
                    np.concatenate([request.legal for request in group]),
                )
                end = 0
                for request in group:
                    start, end = end, end + len(request.planes)
                    score = None if result.score is None else result.score[start:end]
                    request.result = Evaluation(result.policy[start:end], result.value[start:end], score)
        except BaseException as error:
            for request in requests:
                request.result = request.result or error
            raise

    def _evaluate(self, planes: Floats, legal: NDArray[np.bool_]) -> Evaluation:
        if not self.mirror:
            return self._run(planes, legal)
        # Of a position and its mirror image the smaller one (`_is_swapped`) is always computed first, so that the
        # rounding is the same for both.
        swapped, count = _is_swapped(planes), len(planes)
        planes, legal = _mirror(planes, swapped), _mirror(legal, swapped)
        both = self._run(np.concatenate([planes, planes[..., ::-1]]), np.concatenate([legal, legal[..., ::-1]]))

        def mean(x: Floats) -> Floats:
            return _mirror((x[:count] + x[count:, ::-1]) / 2, swapped)

        value = (both.value[:count] + both.value[count:]) / 2
        return Evaluation(mean(both.policy), value, None if both.score is None else mean(both.score))

    def _run(self, planes: Floats, legal: NDArray[np.bool_]) -> Evaluation:
        """Run the network on `batch` positions at a time."""
        if len(planes) <= self.batch:
            return self._run_batch(planes, legal)
        starts = range(0, len(planes), self.batch)
        parts = [self._run_batch(planes[i : i + self.batch], legal[i : i + self.batch]) for i in starts]
        policy, value, score = zip(*parts, strict=True)
        return Evaluation(
            np.concatenate(policy), np.concatenate(value), None if score[0] is None else np.concatenate(score)
        )

    def _run_batch(self, planes: Floats, legal: NDArray[np.bool_]) -> Evaluation:
        planes = np.ascontiguousarray(planes)
        if self.small_batches is not None and len(planes) <= MAX_BOARDS:
            return Evaluation(*self.small_batches(planes, legal))
        with torch.inference_mode():
            planes_tensor = torch.from_numpy(planes)
            output = board_output(self.net(planes_tensor), planes_tensor)
            score = None if output.score is None else output.score.numpy()
            return Evaluation(_softmax(output.policy.numpy(), legal), output.value[:, 0].numpy(), score)


@dataclass
class _Request:
    planes: Floats
    legal: NDArray[np.bool_]
    result: Evaluation | BaseException | None = None


def _softmax(logits: Floats, legal: NDArray[np.bool_]) -> Floats:
    """Return the probabilities of the legal columns (N, columns); 0 everywhere if no column is legal."""
    largest = logits.max(1, keepdims=True, initial=-np.inf, where=legal)
    powers = np.exp(logits - largest, where=legal, out=np.zeros_like(logits))
    return np.divide(powers, powers.sum(1, keepdims=True), where=legal, out=powers)


def _is_swapped(planes: Floats) -> NDArray[np.bool_]:
    """Return for each position whether it is larger than its mirror image at the first number that differs, (N,)."""
    this, other = planes.reshape(len(planes), -1), planes[..., ::-1].reshape(len(planes), -1)
    first = (this != other).argmax(1)[:, None]
    return np.take_along_axis(this > other, first, 1)[:, 0]


def _mirror(x: NDArray[Any], which: NDArray[np.bool_]) -> NDArray[Any]:
    """Return x (N, ..., columns) with the columns reversed where `which` (N,) is True."""
    return np.where(which.reshape(-1, *[1] * (x.ndim - 1)), x[..., ::-1], x)


def _check_input(
    planes: NDArray[Any], legal: NDArray[np.bool_] | None, count: int | None
) -> tuple[Floats, NDArray[np.bool_]]:
    """Return planes and legal columns as the network takes them; raise in the caller's thread if they are wrong."""
    planes = np.asarray(planes, np.float32)
    if planes.ndim != 4 or planes.shape[1] != (count or planes.shape[1]) or planes.size == 0:
        raise ValueError(
            f"an evaluator takes planes of shape (N, {count or 'P'}, rows, columns) with N of at least 1, "
            f"got {planes.shape}; one position needs planes[None]"
        )
    shape = len(planes), planes.shape[-1]
    legal = np.ones(shape, np.bool_) if legal is None else np.asarray(legal)
    fits = legal.ndim <= 2 and all(a in (1, b) for a, b in zip(legal.shape[::-1], shape[::-1], strict=False))
    if legal.dtype != np.bool_ or not fits:
        raise ValueError(
            f"legal must be booleans that broadcast to (N, columns) = {shape}, got {legal.dtype} {legal.shape}"
        )
    return planes, np.broadcast_to(legal, shape)
