"""The exercise in NumPy, with the mistakes that can be made in each part."""

import numpy as np

BASES = (1000, 1e5, 1e6, 10, 500000, np.e, 2, 512, 5000, 20000, 50000, 256, 1024)
PARTS = {
    "position": ("from-one", "degrees", "multiplied", "position-normalised", "position-negated", "two-pi"),
    "columns": ("swapped", "halves", "only-sines", "only-cosines", "halves:swapped"),
    "frequency": (
        "half-the-exponent", "own-frequency", *(f"base:{base:g}" for base in BASES), "double-exponent",
        "exponent-by-length", "exponent-to-one", "exponent-by-pairs", "no-frequency",
        "own-frequency:half", "double-exponent:own", "exponent-plus-one", "exponent-reversed", "exponent-floor",
        "precedence",
        "frequency-outside",
    ),
    "size": ("odd-width",),
    "result": ("transposed-table", "last-column-missing"),
}  # fmt: skip


def model(made, length, d_model):
    if made.get("size") == "odd-width" and d_model % 2:
        raise ValueError("one column too many")
    position = np.arange(length)[:, None].astype(float)
    where, frequency = made.get("position"), made.get("frequency", "")
    if where == "from-one":
        position = position + 1
    elif where == "position-normalised":
        position = position / max(length, 1)
    elif where == "position-negated":
        position = -position
    elif where == "two-pi":
        position = 2 * np.pi * position
    even = 2 * np.arange((d_model + 1) // 2)
    base = float(frequency.partition(":")[2]) if frequency.startswith("base") else 10000.0
    exponent = {
        "half-the-exponent": lambda: even / 2 / d_model,
        "double-exponent": lambda: 2 * even / d_model,
        "exponent-by-length": lambda: even / length,
        "exponent-to-one": lambda: even / 2 / max(len(even) - 1, 1),
        "exponent-by-pairs": lambda: even / max(d_model - 2, 1),
        "exponent-plus-one": lambda: (even + 2) / d_model,
        "exponent-reversed": lambda: even[::-1] / d_model,
        "exponent-floor": lambda: even / max(2 * (d_model // 2), 1),
        "no-frequency": lambda: 0.0 * even,
    }.get(frequency, lambda: even / d_model)()
    steps = base**exponent
    if frequency == "precedence":
        steps = base ** even.astype(float) * d_model
    angle = position * steps if where == "multiplied" else position / steps
    if where == "degrees":
        angle = np.radians(position) / steps
    pairs = d_model // 2
    of_cosine = angle[:, :pairs]
    if frequency == "own-frequency":
        of_cosine = position / base ** (np.arange(1, d_model, 2) / d_model)
    elif frequency == "double-exponent:own":
        angle = position / base ** (2 * even / d_model)
        of_cosine = position / base ** (2 * np.arange(1, d_model, 2) / d_model)
    elif frequency == "own-frequency:half":
        of_cosine = position / base ** ((even[:pairs] + 2) / d_model)
    columns = made.get("columns")
    sine, cosine = np.sin(angle), np.cos(of_cosine)
    if frequency == "frequency-outside":
        sine, cosine = np.sin(position) / steps, np.cos(position) / steps[:pairs]
    if columns in ("swapped", "halves:swapped", "only-cosines"):
        sine = np.cos(angle)
    if columns in ("swapped", "halves:swapped", "only-sines"):
        cosine = np.sin(of_cosine)
    table = np.zeros((length, d_model))
    if columns is not None and columns.startswith("halves"):
        table[:, : sine.shape[1]], table[:, sine.shape[1] :] = sine, cosine
    else:
        table[:, 0::2], table[:, 1::2] = sine, cosine
    result = made.get("result")
    if result == "last-column-missing" and d_model % 2:
        table[:, -1] = 0
    return table.T if result == "transposed-table" else table
