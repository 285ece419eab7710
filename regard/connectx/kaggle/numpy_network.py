"""Board network in NumPy, for exported players that run without torch.

It computes the same as `regard.models.BoardNet` after `for_inference()` (norms folded), for the options that the
shipped network uses. If torch is installed, its convolution is used, which is faster; the results agree up to rounding.

A network is packed as a line of JSON (configuration, the number of bytes of the set of taught positions, and name and
shape of every other array in order), followed by these bytes and all numbers in float16.
"""

import importlib
import json
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from regard.models.board.taught_positions import column_codes, contains, position_keys

Array = np.ndarray

GROUP, SCATTER, SHIFT = 5, 0x1E3779B97F4A7C15, 33  # copied from regard.models.board.opening_table, which needs torch


class Evaluation(NamedTuple):
    """Probabilities (N, columns), values (N,) and, if the network predicts them, scores of the moves (N, columns)."""

    policy: Array
    value: Array
    score: Array | None


class NumpyNetwork:
    """Network from packed bytes. A call averages each position and its mirror image; `one_sided` does not mirror.

    With `plain`, torch is not used even if it is installed.
    """

    def __init__(self, packed: bytes, *, plain: bool = False) -> None:
        line, _, numbers = packed.partition(b"\n")
        head = json.loads(line)
        self.config: dict[str, Any] = head["config"]
        self.taught = np.frombuffer(numbers[: head["taught"]], np.uint8)
        flat, end = np.frombuffer(numbers[head["taught"] :], np.float16).astype(np.float32), 0
        self.weights: dict[str, Array] = {}
        for name, shape in head["arrays"]:
            start, end = end, end + int(np.prod(shape))
            self.weights[name] = flat[start:end].reshape(shape)
        self._torch = None if plain else _torch()
        self._converted: dict[Any, Any] = {}

    def __call__(self, planes: Array, legal: Array) -> Evaluation:
        """Evaluate N positions as the mean of each position and its mirror image."""
        both = np.concatenate([planes, planes[..., ::-1]])
        policy, value, score = self.one_sided(both, np.concatenate([legal, legal[:, ::-1]]))
        half = len(planes)
        score = None if score is None else (score[:half] + score[half:, ::-1]) / 2
        return Evaluation((policy[:half] + policy[half:, ::-1]) / 2, (value[:half] + value[half:]) / 2, score)

    def one_sided(self, planes: Array, legal: Array) -> Evaluation:
        """Evaluate N positions without their mirror images."""
        logits, value, score = self._run(np.asarray(planes, np.float32))
        logits = np.where(legal, logits, -np.inf)
        policy = np.exp(logits - logits.max(1, keepdims=True))
        return Evaluation(policy / policy.sum(1, keepdims=True), value, score)

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
        columns = self._head("policy", x, columns=True)
        score = columns[..., 1] if self.config["score"] == "columns" else None
        value = self._head("value", x, columns=False)[..., 0] + self._table_values(planes)
        return columns[..., 0], np.tanh(value), score

    def _table_values(self, planes: Array) -> Array:
        """Return the corrections by the opening table to the values (N,), as in regard.models.board.opening_table."""
        size, table = tuple(self.config.get("opening_table", ())), self.weights.get("opening_table.table")
        if table is None or size[:2] != planes.shape[2:]:
            return np.zeros(len(planes), np.float32)
        rows, columns, _ = size
        groups = np.array(list(combinations(range(columns), min(GROUP, columns))))
        numbers = {tuple(group): number for number, group in enumerate(groups.tolist())}
        mirrored = [numbers[tuple(columns - 1 - column for column in reversed(group))] for group in groups.tolist()]
        patterns = column_codes(planes)[:, groups]  # (N, G, 5)
        digits = 1 << (rows + 1) * np.arange(groups.shape[1] - 1, -1, -1)
        code = np.minimum(
            (patterns * digits).sum(-1) + (np.arange(len(groups)) << (rows + 1) * groups.shape[1]),
            (patterns[..., ::-1] * digits).sum(-1) + (np.array(mirrored) << (rows + 1) * groups.shape[1]),
        )
        values = table[(code * SCATTER >> SHIFT) & (len(table) - 1)]
        return np.asarray(values.sum(1) * self.covers(planes), np.float32)

    def covers(self, planes: Array) -> Array:
        """Return which positions (N,) the opening table was taught."""
        size = tuple(self.config.get("opening_table", ()))
        if size[:2] != planes.shape[2:]:
            return np.zeros(len(planes), np.bool_)
        few = planes.sum((1, 2, 3)) <= size[2]
        if not len(self.taught) or not few.any():
            return np.asarray(few)
        return np.asarray(few & contains(self.taught, position_keys(column_codes(planes), size[0] + 1)))

    def _conv(self, name: str, x: Array) -> Array:
        """Apply a 3×3 convolution with zero padding: nine shifted copies of the board, then one matrix product."""
        weight, bias = self.weights[f"{name}.weight"], self.weights[f"{name}.bias"]
        if self._torch is not None:
            tensor = self._torch.from_numpy(np.ascontiguousarray(x)).permute(0, 3, 1, 2)
            if name not in self._converted:
                self._converted[name] = [self._torch.from_numpy(array.copy()) for array in (weight, bias)]
            result = self._torch.nn.functional.conv2d(tensor, *self._converted[name], padding=1)
            return np.asarray(result.permute(0, 2, 3, 1).numpy())
        if name not in self._converted:
            self._converted[name] = np.ascontiguousarray(weight.transpose(2, 3, 1, 0).reshape(-1, len(weight)))
        count, rows, columns, channels = x.shape
        padded = np.zeros((count, rows + 2, columns + 2, channels), np.float32)
        padded[:, 1:-1, 1:-1] = x
        nine = [padded[:, r : r + rows, c : c + columns] for r in range(3) for c in range(3)]
        flat = np.concatenate(nine, axis=-1).reshape(-1, 9 * channels)
        return np.asarray((flat @ self._converted[name] + bias).reshape(count, rows, columns, -1))

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

    def _head(self, name: str, x: Array, columns: bool) -> Array:
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
        """Return the input with the planes that regard.models.board.input_planes adds."""
        count, _, rows, columns = planes.shape
        border = inarow - 1
        margin = ((0, 0), (0, 0), (border, border), (border, border))
        own, other = np.pad(planes, margin), np.pad(planes[:, ::-1], margin, constant_values=1)
        completed, nearly, lines = np.zeros_like(planes), np.zeros_like(planes), np.zeros_like(planes)
        fullest = []
        for down, right in ((1, 0), (0, 1), (1, 1), (1, -1)):
            most = np.zeros_like(planes)
            for here in range(inarow):
                places = [
                    np.s_[:, :, r : r + rows, c : c + columns]
                    for r, c in ((border + (at - here) * down, border + (at - here) * right) for at in range(inarow))
                ]
                stones = sum(own[place] for place in places)
                is_open = 1.0 - np.minimum(sum(other[place] for place in places), 1)
                completed = np.maximum(completed, stones - planes > border - 0.5)
                nearly += (np.abs(stones - (inarow - 2)) < 0.5) * is_open
                lines += is_open
                most = np.maximum(most, stones * is_open)
            fullest.append(most / border)
        free = 1 - planes.sum(1, keepdims=True)
        below = np.concatenate([1 - free[:, :, 1:], np.ones((count, 1, 1, columns), np.float32)], axis=2)
        odd = (np.arange(rows, 0, -1) % 2).astype(np.float32)[:, None]
        sides = np.stack([*fullest, nearly / 4, lines / 8], axis=2).reshape(count, -1, rows, columns)
        parts = [planes, completed * free, below * free, np.broadcast_to(odd, free.shape), sides]
        return np.concatenate(parts, axis=1, dtype=np.float32)


def pack_network(config: dict[str, Any], weights: dict[str, Array]) -> bytes:
    """Return a network without norms as the bytes that `NumpyNetwork` reads."""
    if config["norm"] != "none" or config.get("bias", "none") != "none" or set(config["sees"]) != {"all"}:
        raise ValueError(
            "networks with group norm, attention masks or attention biases cannot be exported; "
            'train with norm="batch" and heads that attend to all squares'
        )
    weights = dict(weights)
    taught = weights.pop("opening_table.taught", np.zeros(0, np.uint8))
    arrays = [[name, list(array.shape)] for name, array in weights.items()]
    head = {"config": config, "taught": len(taught), "arrays": arrays}
    numbers = b"".join(np.ascontiguousarray(array, np.float16).tobytes() for array in weights.values())
    return json.dumps(head).encode() + b"\n" + taught.tobytes() + numbers


def _torch() -> Any:
    try:
        torch = importlib.import_module("torch")
        torch.set_num_threads(1)
        return torch
    except Exception:
        return None
