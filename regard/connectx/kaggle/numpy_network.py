"""A board network in NumPy alone: what travels in an exported player, where there may be no torch.

It computes what `regard.models.BoardNet` computes after `for_inference()` (no norms left), for the options that our
trained networks use. With torch at hand its convolution is used, which is faster; the numbers agree to rounding.

A network is packed as a line of JSON (configuration and the shape of every array, in order) and then all numbers in
float16.
"""

import importlib
import json
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray

GROUP, SCATTER, SHIFT = 5, 0x1E3779B97F4A7C15, 33  # of regard.models.board.opening_table, which does not travel


class Judged(NamedTuple):
    """Probabilities (N, columns), values (N,) and, of networks that have them, scores of the moves (N, columns)."""

    policy: Array
    value: Array
    score: Array | None


class Forward:
    """The network in these bytes, judging positions from both sides, or as they stand (`one_sided`).

    `plain` leaves torch aside even where there is one.
    """

    def __init__(self, packed: bytes, *, plain: bool = False) -> None:
        line, _, numbers = packed.partition(b"\n")
        head = json.loads(line)
        self.config: dict[str, Any] = head["config"]
        flat, end = np.frombuffer(numbers, np.float16).astype(np.float32), 0
        self.weights: dict[str, Array] = {}
        for name, shape in head["arrays"]:
            start, end = end, end + int(np.prod(shape))
            self.weights[name] = flat[start:end].reshape(shape)
        self._torch = None if plain else _torch()
        self._kept: dict[Any, Any] = {}

    def __call__(self, planes: Array, legal: Array) -> Judged:
        """Judge N positions, each from both sides."""
        both = np.concatenate([planes, planes[..., ::-1]])
        policy, value, score = self.one_sided(both, np.concatenate([legal, legal[:, ::-1]]))
        half = len(planes)
        score = None if score is None else (score[:half] + score[half:, ::-1]) / 2
        return Judged((policy[:half] + policy[half:, ::-1]) / 2, (value[:half] + value[half:]) / 2, score)

    def one_sided(self, planes: Array, legal: Array) -> Judged:
        """Judge N positions as they stand."""
        logits, value, score = self._run(np.asarray(planes, np.float32))
        logits = np.where(legal, logits, -np.inf)
        policy = np.exp(logits - logits.max(1, keepdims=True))
        return Judged(policy / policy.sum(1, keepdims=True), value, score)

    def _run(self, planes: Array) -> tuple[Array, Array, Array | None]:
        lines = self.config["lines"]
        x = planes if lines is None else self._with_lines(planes, lines)
        x = np.maximum(self._conv("stem.conv", x.transpose(0, 2, 3, 1)), 0)  # (N, rows, columns, C) from here on
        every = self.config["attn_every"]
        for number in range(self.config["layers"]):
            inner = np.maximum(self._conv(f"blocks.{number}.first.conv", x), 0)
            x = np.maximum(self._conv(f"blocks.{number}.second.conv", inner) + x, 0)
            if every and (number + 1) % every == 0:
                x = x + self._attention(f"attention.{(number + 1) // every - 1}", x)
        columns = self._reading("policy", x, columns=True)
        score = columns[..., 1] if self.config["score"] == "columns" else None
        value = self._reading("value", x, columns=False)[..., 0] + self._by_heart(planes)
        return columns[..., 0], np.tanh(value), score

    def _by_heart(self, planes: Array) -> Array:
        """What the opening table adds to values, as regard.models.board.opening_table has it: (N,)."""
        size, table = tuple(self.config.get("opening_table", ())), self.weights.get("opening_table.table")
        if table is None or size[:2] != planes.shape[2:]:
            return np.zeros(len(planes), np.float32)
        rows, columns, stones = size
        groups = np.array(list(combinations(range(columns), min(GROUP, columns))))
        names = {tuple(group): number for number, group in enumerate(groups.tolist())}
        other = [names[tuple(columns - 1 - column for column in reversed(group))] for group in groups.tolist()]
        heights = planes.sum((1, 2)).astype(np.int64)  # (N, columns)
        own = (planes[:, 0] * (1 << np.arange(rows - 1, -1, -1))[:, None]).sum(1).astype(np.int64)
        held = (own + (1 << heights))[:, groups]  # (N, G, 5)
        digits = 1 << (rows + 1) * np.arange(groups.shape[1] - 1, -1, -1)
        code = np.minimum(
            (held * digits).sum(-1) + (np.arange(len(groups)) << (rows + 1) * groups.shape[1]),
            (held[..., ::-1] * digits).sum(-1) + (np.array(other) << (rows + 1) * groups.shape[1]),
        )
        found = table[(code * SCATTER >> SHIFT) & (len(table) - 1)]
        return np.asarray(found.sum(1) * (heights.sum(1) <= stones), np.float32)

    def _conv(self, name: str, x: Array) -> Array:
        """3×3 with zeros around: nine shifted boards side by side, and one matrix product."""
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        if self._torch is not None:
            given = self._torch.from_numpy(np.ascontiguousarray(x)).permute(0, 3, 1, 2)
            if name not in self._kept:
                self._kept[name] = [self._torch.from_numpy(array.copy()) for array in (weight, bias)]
            found = self._torch.nn.functional.conv2d(given, *self._kept[name], padding=1)
            return np.asarray(found.permute(0, 2, 3, 1).numpy())
        if name not in self._kept:
            self._kept[name] = np.ascontiguousarray(weight.transpose(2, 3, 1, 0).reshape(-1, len(weight)))
        count, rows, columns, channels = x.shape
        padded = np.zeros((count, rows + 2, columns + 2, channels), np.float32)
        padded[:, 1:-1, 1:-1] = x
        nine = [padded[:, r : r + rows, c : c + columns] for r in range(3) for c in range(3)]
        flat = np.concatenate(nine, axis=-1).reshape(-1, 9 * channels)
        return np.asarray((flat @ self._kept[name] + bias).reshape(count, rows, columns, -1))

    def _attention(self, name: str, x: Array) -> Array:
        count, rows, columns, channels = x.shape
        heads = self.config["heads"]
        qkv = self._linear(f"{name}.squares.qkv", x.reshape(count, rows * columns, channels))
        q, k, v = (
            part.reshape(count, rows * columns, heads, -1).transpose(0, 2, 1, 3) for part in np.split(qkv, 3, axis=-1)
        )  # (N, heads, squares, d_k)
        scores = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(q.shape[-1]))
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        merged = (weights @ v).transpose(0, 2, 1, 3).reshape(count, rows * columns, channels)
        return self._linear(f"{name}.squares.out", merged).reshape(x.shape)

    def _reading(self, name: str, x: Array, columns: bool) -> Array:
        x = np.maximum(self._linear(f"{name}.reduce", x), 0)
        pooled = np.concatenate([x.mean((1, 2)), x.max((1, 2))], axis=-1)
        if columns:
            whole = np.broadcast_to(pooled[:, None], (*x.shape[::2], pooled.shape[-1]))
            pooled = np.concatenate([x.mean(1), x.max(1), whole], axis=-1)
        return self._linear(f"{name}.answer", np.maximum(self._linear(f"{name}.hidden", pooled), 0))

    def _linear(self, name: str, x: Array) -> Array:
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        return np.asarray(x @ weight.reshape(len(weight), -1).T + bias)

    @staticmethod
    def _with_lines(planes: Array, inarow: int) -> Array:
        """The planes that regard.models.board.input_planes adds."""
        count, _, rows, columns = planes.shape
        room = inarow - 1
        margin = ((0, 0), (0, 0), (room, room), (room, room))
        own, other = np.pad(planes, margin), np.pad(planes[:, ::-1], margin, constant_values=1)
        completed, nearly, lines = np.zeros_like(planes), np.zeros_like(planes), np.zeros_like(planes)
        fullest = []
        for down, right in ((1, 0), (0, 1), (1, 1), (1, -1)):
            most = np.zeros_like(planes)
            for here in range(inarow):
                places = [
                    np.s_[:, :, r : r + rows, c : c + columns]
                    for r, c in ((room + (at - here) * down, room + (at - here) * right) for at in range(inarow))
                ]
                stones = sum(own[place] for place in places)
                is_open = 1.0 - np.minimum(sum(other[place] for place in places), 1)
                completed = np.maximum(completed, stones - planes > room - 0.5)
                nearly += (np.abs(stones - (inarow - 2)) < 0.5) * is_open
                lines += is_open
                most = np.maximum(most, stones * is_open)
            fullest.append(most / room)
        free = 1 - planes.sum(1, keepdims=True)
        below = np.concatenate([1 - free[:, :, 1:], np.ones((count, 1, 1, columns), np.float32)], axis=2)
        odd = (np.arange(rows, 0, -1) % 2).astype(np.float32)[:, None]
        sides = np.stack([*fullest, nearly / 4, lines / 8], axis=2).reshape(count, -1, rows, columns)
        given = [planes, completed * free, below * free, np.broadcast_to(odd, free.shape), sides]
        return np.concatenate(given, axis=1, dtype=np.float32)


def packed_network(config: dict[str, Any], weights: dict[str, Array]) -> bytes:
    """The bytes that `Forward` takes, of a network without norms."""
    if config["norm"] != "none" or config.get("bias", "none") != "none" or set(config["sees"]) != {"all"}:
        raise ValueError(
            "networks with group norms, masks of sight or biases cannot be packed yet; "
            'train with norm="batch" and heads that see all'
        )
    head = {"config": config, "arrays": [[name, list(array.shape)] for name, array in weights.items()]}
    numbers = b"".join(np.ascontiguousarray(array, np.float16).tobytes() for array in weights.values())
    return json.dumps(head).encode() + b"\n" + numbers


def _torch() -> Any:
    try:
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        return torch
    except Exception:
        return None
