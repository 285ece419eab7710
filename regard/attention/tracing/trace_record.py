"""The data structure of a trace, and its JSON format.

A trace is attention computed as a sequence of named steps, each with its formula, shape and values. The terminal, a
notebook, a web page and an exported file all display the same JSON. Version 1, as `Trace.to_json` writes it:

    schema     "regard.trace"
    version    1
    kind       "attention" for given q, k and v; "layer" from the token vectors to the output
    tokens     {"queries": [L names], "keys": [S names]}; by default q0, k0, …
    heads      H, 1 where there is no head axis; kv_heads is H_kv
    scale      the number the scores are multiplied by
    mask       null, or {"text": the mask as text, "shape": […], "visible": nested true/false};
               right-aligned to (…, H, L, S) as NumPy broadcasts, the last two axes always L and S
    note       one sentence about the origin of the numbers, or ""
    inputs     parts: Q, K, V; or X, W_q, …
    steps      [{"name", "title", "explanation", "formula", "latex", "parts"}, …] in order
    part       {"symbol": "Q", "letters": ["H", "L", "d_k"], "axes": ["head", "query", "feature"],
                "shape": [2, 6, 4], "values": nested lists}
    checksum   of all other entries; `Trace.from_json` verifies it if it is there

The steps' names are: project, split, scores, scale, mask, maximum, exponentials, sum, weights, context,
merge, output. Kind "attention" has those from scores to context. project and split have three parts, the
others one.

Numbers are float64 and are restored exactly. JSON has no infinity, so three values are written as strings:
"-Infinity" (a hidden score, the maximum of an empty row), "Infinity" and "NaN". `Number(x)` in JavaScript and
`float(x)` in Python convert numbers and these strings.
"""

import json
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from regard.files import explain_damage, parse_json, verify_json, with_checksum

Array = np.ndarray

SCHEMA, VERSION = "regard.trace", 1

STEP_FIELDS = ("name", "title", "explanation", "formula", "latex")

AXES = {"B": "batch", "H": "head", "H_kv": "key/value head", "L": "query", "S": "key"}


@dataclass(frozen=True, eq=False)
class Part:
    """One array of a trace with the letters of its shape.

    symbol      its name in formulas, such as "Q"
    values      the array
    letters     a letter for each axis, such as ("H", "L", "S")

    >>> part = Part("scores", np.zeros((2, 6, 6)), ("H", "L", "S"))
    >>> part.shape, part.axes
    ((2, 6, 6), ('head', 'query', 'key'))
    """

    symbol: str
    values: Array
    letters: tuple[str, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the dimensions, in the order of the letters."""
        return self.values.shape

    @property
    def axes(self) -> tuple[str, ...]:
        """Names of the dimensions: batch, head, query, key, feature."""
        return tuple(AXES.get(letter, "batch" if letter[0] == "B" else "feature") for letter in self.letters)


@dataclass(frozen=True, eq=False)
class Step:
    """One step of a trace.

    name                name by which a trace returns the step, such as "scores"
    title, explanation  what the step does, in one line and in a few sentences
    formula, latex      its formula as text and in LaTeX
    parts               its arrays: three for "project" and "split", otherwise one

    >>> step = Step("sum", "Add up", "Adds.", "sum[i] = Σ_j e[i, j]", "", (Part("sum", np.ones(3), ("L",)),))
    >>> step.values, step.shape
    (array([1., 1., 1.]), (3,))
    """

    name: str
    title: str
    explanation: str
    formula: str
    latex: str
    parts: tuple[Part, ...]

    @property
    def values(self) -> Any:
        """The array of this step; for project and split the arrays (Q, K, V)."""
        return self._of_parts("values")

    @property
    def shape(self) -> Any:
        """The shape of the array; for project and split the shapes of (Q, K, V)."""
        return self._of_parts("shape")

    @property
    def axes(self) -> Any:
        """The names of the array's dimensions; for project and split those of (Q, K, V)."""
        return self._of_parts("axes")

    def _of_parts(self, attribute: str) -> Any:
        first, *others = (getattr(part, attribute) for part in self.parts)
        return (first, *others) if others else first


@dataclass(frozen=True, eq=False)
class Trace:
    """Attention as a sequence of steps; returned by `regard.trace` and `trace_layer`.

    kind                "attention" for given q, k and v; "layer" from the vectors of the tokens to the output
    inputs              the arrays that the computation starts from
    steps               the steps in order; `trace[name]` returns one
    tokens, key_tokens  names of the queries and of the keys
    heads, kv_heads     H and H_kv; 1 without an axis of heads
    scale               factor of the scores
    visible             booleans that broadcast to (..., H, L, S), True = visible; None without mask
    mask                the mask as text; None without mask
    note                one sentence about the origin of the numbers

    >>> import regard
    >>> trace = regard.trace([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]])
    >>> print(trace)
    trace of 1 query, 2 keys: scores → scale → mask → maximum → exponentials → sum → weights → context
    >>> trace["weights"].values.round(2)
    array([[0.67, 0.33]])
    >>> Trace.from_json(trace.to_json()).output.round(2)
    array([[1.33]])
    """

    kind: str
    inputs: tuple[Part, ...]
    steps: tuple[Step, ...]
    tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]
    heads: int
    kv_heads: int
    scale: float
    visible: Array | None = field(default=None, repr=False)
    mask: str | None = None
    note: str = ""

    @property
    def weights(self) -> Array:
        """The attention weights (..., L, S) of each head; every row that is not empty sums to 1."""
        return self.part("weights").values

    @property
    def output(self) -> Array:
        """The result of the last step: the output of the layer, or the context if there is no layer."""
        return self.steps[-1].parts[0].values

    def __getitem__(self, name: str) -> Step:
        for step in self.steps:
            if step.name == name:
                return step
        raise KeyError(f"no step {name!r} in this trace; it has {', '.join(step.name for step in self.steps)}")

    def part(self, name: str, symbol: str | None = None) -> Part:
        """Return the part with this symbol (or the first) of a step or, for `name="inputs"`, of the inputs."""
        parts = self.inputs if name == "inputs" else self[name].parts
        for part in parts:
            if symbol in (None, part.symbol):
                return part
        raise KeyError(f"no part {symbol!r} in {name}; it has {', '.join(part.symbol for part in parts)}")

    def __str__(self) -> str:
        queries, keys = (
            f"{len(n)} {word if len(n) == 1 else words}"
            for n, word, words in ((self.tokens, "query", "queries"), (self.key_tokens, "key", "keys"))
        )
        heads = f", {self.heads} heads" if self.heads > 1 else ""
        return f"trace of {queries}, {keys}{heads}: " + " → ".join(step.name for step in self.steps)

    def to_json(self, indent: int | None = None) -> str:
        """Return the trace as strict JSON; the format is described at the top of this module."""
        mask: dict[str, Any] | None = None
        if self.visible is not None:
            mask = {"text": self.mask, "shape": list(self.visible.shape), "visible": self.visible.tolist()}
        document = {
            "schema": SCHEMA,
            "version": VERSION,
            "kind": self.kind,
            "tokens": {"queries": self.tokens, "keys": self.key_tokens},
            "heads": self.heads,
            "kv_heads": self.kv_heads,
            "scale": _encode(self.scale),
            "mask": mask,
            "note": self.note,
            "inputs": [_write_part(part) for part in self.inputs],
            "steps": [
                {name: getattr(step, name) for name in STEP_FIELDS} | {"parts": [_write_part(p) for p in step.parts]}
                for step in self.steps
            ],
        }
        return json.dumps(with_checksum(document), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> "Trace":
        """Return the trace that `to_json` wrote, with identical numbers."""
        with explain_damage("the text", "a trace", "write it again with Trace.to_json of this version of regard"):
            document = verify_json(parse_json(text))
            if (found := (document["schema"], document["version"])) != (SCHEMA, VERSION):
                raise ValueError(f"expected schema {SCHEMA} and version {VERSION}, got {found}")
            mask = document["mask"]
            return cls(
                **{name: document[name] for name in ("kind", "heads", "kv_heads", "note")},
                inputs=tuple(_read_part(part) for part in document["inputs"]),
                steps=tuple(
                    Step(**{name: step[name] for name in STEP_FIELDS}, parts=tuple(map(_read_part, step["parts"])))
                    for step in document["steps"]
                ),
                tokens=tuple(document["tokens"]["queries"]),
                key_tokens=tuple(document["tokens"]["keys"]),
                scale=float(document["scale"]),
                visible=mask and np.array(mask["visible"], dtype=bool).reshape(mask["shape"]),
                mask=mask and mask["text"],
            )


def _write_part(part: Part) -> dict[str, Any]:
    values = part.values.tolist() if np.isfinite(part.values).all() else _encode(part.values.tolist())
    return {name: getattr(part, name) for name in ("symbol", "letters", "axes", "shape")} | {"values": values}


def _read_part(part: dict[str, Any]) -> Part:
    values = np.array(part["values"], dtype=np.float64).reshape(part["shape"])
    return Part(part["symbol"], values, tuple(part["letters"]))


def _encode(values: Any) -> Any:
    """Replace infinities and NaN in nested lists by the strings that Number() and float() convert."""
    if isinstance(values, list):
        return [_encode(value) for value in values]
    if isfinite(values):
        return values
    return "NaN" if values != values else "Infinity" if values > 0 else "-Infinity"
