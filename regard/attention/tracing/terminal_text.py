"""A trace as text for the terminal: each step with its explanation, the formula of one cell, and its numbers.

Tables are cut to the width of the terminal, with a note. The background of weights shows their size; all numbers are
also printed as digits, so that the output is complete in a pipe or under NO_COLOR.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from regard.attention.tracing.cell import explain_cell, number, token_name
from regard.attention.tracing.trace_record import Part, Step, Trace

Array = np.ndarray
Block = list[Text]  # lines of text

INDENT, GAP, BETWEEN_TABLES = 4, 2, 4
LONGEST_ROW_NAME, LONGEST_COLUMN_NAME = 12, 8
HEAT = ((52, 126, 214, 255), (64, 66, 98, 192), (104, 124, 76, 72))  # red, green, blue at four weights


def print_trace(
    trace: Trace,
    console: Console | None = None,
    *,
    head: int = 0,
    steps: Iterable[str] | None = None,
    decimals: int = 3,
    rows: int = 16,
) -> None:
    """Print a trace or some of its steps, for one head and the first batch item.

    trace       a trace of `regard.trace` or `trace_layer`
    console     where to print; by default the terminal
    head        the head to print
    steps       names of the steps to print; all by default
    decimals    number of decimals
    rows        largest number of rows and columns of a matrix to print

    >>> import regard
    >>> t = regard.trace([[1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]], [[1.0], [2.0]], tokens=["it"])
    >>> print_trace(t, Console(width=60, color_system=None), steps=["weights"])
    <BLANKLINE>
     7  weights  Divide by the sum               (L, S) = (1, 2)
        These are the attention weights: for each query, how
        much of its attention goes to each key. Every row adds
        up to 1.
        weights[i, j] = e[i, j] / sum[i]
        weight(it, k1) = 0.493 / 1.493 ≈ 0.330
    <BLANKLINE>
                k0      k1
        it   0.670   0.330
    """
    console = console or Console(highlight=False)
    if not 0 <= head < trace.heads:
        raise ValueError(f"head must be from 0 to {trace.heads - 1}, got {head}; heads count from 0")
    if not trace.weights.size:
        raise ValueError(f"the trace must have queries and keys, got {len(trace.tokens)} and {len(trace.key_tokens)}")
    page = _Page(trace, console, head, decimals, rows)
    if steps is None:
        blocks = [page.opening(), *map(page.step, trace.steps), page.closing()]
    else:
        blocks = [page.step(trace[name]) for name in steps]
    for line in (line for block in blocks for line in block):
        console.print(line, no_wrap=True, overflow="ignore", crop=False)


class _Page:
    """Formats the steps of a trace for one console width, one head and one example pair of query and key."""

    def __init__(self, trace: Trace, console: Console, head: int, decimals: int, rows: int) -> None:
        self.trace, self.console, self.head, self.decimals, self.rows = trace, console, head, decimals, rows
        self.queries, self.keys = ([_printable(name) for name in t] for t in (trace.tokens, trace.key_tokens))
        rank = trace.weights.ndim
        self.lead = (*(0,) * (rank - 3), head) if rank > 2 else ()
        self.weights = np.atleast_2d(trace.weights[self.lead])
        self.visible = np.atleast_2d(trace.part("mask").values[self.lead]) > -np.inf
        self.pair = self._pair()

    def _pair(self) -> tuple[int, int]:
        """Return the query and the key of the example cell.

        The query is the last one shown, up to the sixth, because late queries see most keys under a causal mask. The
        key has the second largest weight of the first six: the formula of the largest, exp(0) = 1, shows little.
        """
        query = min(len(self.queries), self.rows, 6) - 1
        weights = self.weights[query, :6]
        order = np.argsort(-weights, kind="stable")
        return query, int(order[1 if np.count_nonzero(weights) > 1 else 0])

    def opening(self) -> Block:
        trace = self.trace
        L, S = len(self.queries), len(self.keys)
        sizes = f"{L} tokens" if self.queries == self.keys else f"{L} queries, {S} keys"
        d_k = trace.part("split" if trace.kind == "layer" else "inputs", "Q").shape[-1]
        heads = f"{trace.heads} head{'s' if trace.heads > 1 else ''} of width {d_k}"
        facts = [sizes, heads, f"mask {trace.mask}" if trace.mask else "no mask", f"scale {trace.scale:.4g}"]
        note = self._wrap(trace.note, 1, "dim") if trace.note else []
        return [Text(), Text(" Attention, step by step", style="bold"), *self._wrap(" · ".join(facts), 1), *note]

    def closing(self) -> Block:
        query = len(self.queries) - 1
        largest = int(self.weights[query].argmax())
        where = f"In head {self.head}, " if self.trace.heads > 1 else ""
        sentence = f"{where}“{token_name(self.queries, query)}” attends most to “{token_name(self.keys, largest)}”"
        weight = number(self.weights[query, largest], self.decimals)
        return [Text(), *self._wrap(f"{sentence}: {weight}.", 1), Text()]

    def step(self, step: Step) -> Block:
        """Return the lines of one step: number and name, explanation, formula in letters and in numbers, table."""
        count = self.trace.steps.index(step) + 1
        name = Text.assemble((f"{count:>{INDENT - 2}}  {step.name}", "bold"), "  ", (step.title, "bold cyan"))
        shapes = Text(self._shapes(step), style="dim")
        space = self.console.width - name.cell_len - shapes.cell_len
        heading = [name.append(" " * space).append_text(shapes)] if space > 1 else [name, _indent(shapes)]

        query, key = self.pair
        if step.name == "mask" and not self.visible.all():
            query, key = (int(i) for i in np.argwhere(~self.visible)[0])
        example = explain_cell(self.trace, step.name, query, key, lead=self.lead, decimals=self.decimals)
        return [
            Text(),
            *heading,
            *self._wrap(step.explanation, INDENT),
            *self._wrap(step.formula, INDENT, "cyan"),
            *self._wrap(_printable(example), INDENT, "green"),
            *self._arrange([self._block(step, part) for part in step.parts]),
        ]

    def _shapes(self, step: Step) -> str:
        sizes = {part.shape: part.letters for part in reversed(step.parts)}  # equal shapes: the first part's letters
        sizes = dict(reversed(sizes.items()))
        text = ", ".join(f"({', '.join(letters)}) = ({', '.join(map(str, shape))})" for shape, letters in sizes.items())
        in_heads = self.trace.heads > 1 and "H" in step.parts[0].letters
        return f"{text}, head {self.head}" if in_heads else text

    def _block(self, step: Step, part: Part) -> Block:
        """Return the numbers of a part in this head, as a table."""
        values, rows, columns = self._matrix(part)
        matrix = enumerate(values[: self.rows])
        cells = [[self._cell(step.name, i, j, x) for j, x in enumerate(row)] for i, row in matrix]
        corner = part.symbol if len(step.parts) > 1 else ""
        narrowest = self.decimals + 3  # width of -0.000, so that columns are aligned in all steps
        lines, shown = _table(corner, rows, columns, cells, self.console.width - INDENT, narrowest)
        return lines + _left_out(len(cells), len(values), shown, len(columns))

    def _matrix(self, part: Part) -> tuple[Array, list[str], list[str]]:
        """Return the matrix of a part in this head, with the names of its rows and columns."""
        values, letters = part.values, part.letters
        index = {"H": self.head, "H_kv": self.head * self.trace.kv_heads // self.trace.heads}
        while len(letters) > 1 and letters[0] not in ("L", "S"):
            values, letters = values[index.get(letters[0], 0)], letters[1:]
        if letters in ((), ("L",)):  # one number per query: one row, with the queries as columns
            return values.reshape(1, -1), [""], self.queries
        values, names = np.atleast_2d(values), {"L": self.queries, "S": self.keys}
        rows = names[letters[0]] if len(letters) > 1 else self.queries
        return values, rows, names.get(letters[-1]) or [str(i) for i in range(values.shape[1])]

    def _cell(self, step: str, query: int, key: int, value: float) -> Text:
        if step in ("exponentials", "weights") and not self.visible[query, key]:
            return Text("0", style="dim")  # exactly 0, not a small number
        style = _heat(value) if step == "weights" else "dim" if np.isneginf(value) else ""
        return Text(number(value, self.decimals), style=style)

    def _arrange(self, blocks: list[Block]) -> Block:
        """Place tables side by side as far as they fit, in rows with a blank line before each."""
        lines: Block = []
        while blocks:
            widths = np.cumsum([max(line.cell_len for line in block) + BETWEEN_TABLES for block in blocks])
            fitting = max(1, int((widths <= self.console.width - INDENT + BETWEEN_TABLES).sum()))
            row, blocks = blocks[:fitting], blocks[fitting:]
            lines += [Text(), *(_indent(line) for line in _beside(row))]
        return lines

    def _wrap(self, text: str, indent: int, style: str = "") -> Block:
        wrapped = Text(text, style=style).wrap(self.console, max(self.console.width - indent, 20))
        return [_indent(line, indent) for line in wrapped]


def _table(
    corner: str, rows: Sequence[str], columns: Sequence[str], cells: list[list[Text]], width: int, narrowest: int
) -> tuple[Block, int]:
    """Return a right-aligned table as lines of at most `width` cells, and the number of columns shown."""
    rows = [_short(name, LONGEST_ROW_NAME) for name in rows]
    columns = [_short(name, LONGEST_COLUMN_NAME) for name in columns]
    left = max(cell_len(name) for name in (corner, *rows[: len(cells)]))
    widest = max((cell.cell_len for row in cells for cell in row), default=0)
    each = max(widest, narrowest, *map(cell_len, columns)) + GAP if columns else GAP
    shown = min(max(1, (width - left) // each), len(columns))

    lines = [_line(Text(corner), left, [Text(name, style="bold") for name in columns[:shown]], each)]
    lines += [_line(Text(name), left, row[:shown], each) for name, row in zip(rows, cells, strict=False)]
    return lines, shown


def _line(name: Text, left: int, cells: list[Text], each: int) -> Text:
    name.stylize("bold")
    line = Text(" " * (left - name.cell_len)).append_text(name)
    for cell in cells:
        line.append(" " * (each - cell.cell_len)).append_text(cell)
    return line


def _left_out(rows: int, all_rows: int, columns: int, all_columns: int) -> Block:
    """Return a line that names the rows and columns that a table does not show."""
    ranges = [
        f"{name} {shown}" if shown == count - 1 else f"{name}s {shown} to {count - 1}"
        for name, shown, count in (("column", columns, all_columns), ("row", rows, all_rows))
        if shown < count
    ]
    return [Text(f"not shown: {' and '.join(ranges)}", style="italic dim")] if ranges else []


def _beside(blocks: list[Block]) -> Block:
    widths = [max(line.cell_len for line in block) + BETWEEN_TABLES for block in blocks]
    lines = []
    for i in range(max(map(len, blocks))):
        line = Text()
        for block, end in zip(blocks, np.cumsum([0, *widths]), strict=False):
            if i < len(block):
                line.append(" " * (end - line.cell_len)).append_text(block[i])
        lines.append(line)
    return lines


def _heat(weight: float) -> str:
    """Return the background style of a weight, from slate to amber, readable on all terminals; "" below weight 0.05."""
    if not weight >= 0.05:
        return ""
    red, green, blue = (int(np.interp(weight, (0, 0.35, 0.7, 1), stops)) for stops in HEAT)
    return f"{'rgb(0,0,0)' if weight > 0.6 else 'rgb(255,255,255)'} on rgb({red},{green},{blue})"


def _indent(line: Text, by: int = INDENT) -> Text:
    line.rstrip()
    return Text(" " * by).append_text(line)


def _short(name: str, longest: int) -> str:
    return name if cell_len(name) <= longest else set_cell_size(name, longest - 1).rstrip() + "…"


def _printable(text: str) -> str:
    """Replace control characters, which could move the cursor or change colours."""
    return "".join(c if c.isprintable() else "�" for c in text)
