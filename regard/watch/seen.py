"""What was seen: the calls, and what they say together."""

from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from rich.table import Table
from torch import Tensor, nn

from regard.watch.call import Call
from regard.watch.doctor import Finding, examine


@dataclass
class Seen:
    """The calls of one run, in order."""

    model: nn.Module = field(repr=False)
    calls: list[Call] = field(default_factory=list)
    left_out: int = 0  # calls not recorded because of max_calls

    def __getitem__(self, which: int | str) -> Call:
        """A call by its number, or by the path of its module (the last one, where it called several times)."""
        self._something()
        if isinstance(which, int):
            return self.calls[which]
        found = [call for call in self.calls if call.name == which]
        if not found:
            names = ", ".join(dict.fromkeys(call.name for call in self.calls))
            raise KeyError(f"no call was made by {which!r}; calls were made by {names}")
        return found[-1]

    def __len__(self) -> int:
        return len(self.calls)

    def _something(self) -> None:
        if not self.calls:
            raise ValueError(nothing_seen(self.model))

    def summary(self) -> list[dict[str, Any]]:
        """A row for every head of every call: mean entropy, distance, sink mass, share of empty rows."""
        self._something()
        rows = []
        for call in self.calls:
            facts = call.statistics
            for head in range(call.shape[1]):
                seen = ~facts.empty[:, head]
                count = max(1, int(seen.sum()))
                rows.append(
                    {
                        "call": call.name,
                        "head": head,
                        "entropy": float(facts.entropy[:, head].sum() / count),
                        "distance": float(facts.distance[:, head].sum() / count),
                        "spread": float(facts.spread[:, head].sum() / count),
                        "sink": float(facts.sink[:, head].sum() / count),
                        "empty": float((~seen).float().mean()),
                    }
                )
        return rows

    def table(self) -> Table:
        """The summary to be printed."""
        table = Table(title="What each head attends to", title_justify="left")
        table.add_column("module")
        for column in ("head", "entropy", "distance", "spread", "on first key", "empty rows"):
            table.add_column(column, justify="right")
        before = None
        for row in self.summary():
            name = row["call"] if row["call"] != before else ""
            before = row["call"]
            figures = (f"{row[key]:.2f}" for key in ("entropy", "distance", "spread", "sink"))
            table.add_row(name, str(row["head"]), *figures, f"{row['empty']:.0%}" if row["empty"] else "")
        return table

    def check(self, *, padding: Any = None, causal: bool = False) -> list[Finding]:
        """What looks wrong: see `regard.watch.doctor`."""
        self._something()
        return examine(self.calls, padding=padding, causal=causal)

    def rollout(self, *, residual: float = 0.5) -> Float[Tensor, "b l s"]:
        """Attention composed over the layers: how much of each input token reaches each output token.

        The mean of the heads of each layer, mixed with the residual stream and multiplied up. It is the one question
        here whose answer is an S×S matrix.
        """
        self._something()
        total: Tensor | None = None
        for call in self.calls:
            if call.shape[2] != call.shape[3]:
                raise ValueError(
                    f"rollout composes self-attention; {call.name!r} has L={call.shape[2]}, S={call.shape[3]}"
                )
            mean = torch.stack([call.weights(head=head) for head in range(call.shape[1])]).mean(0)
            mixed = residual * torch.eye(call.shape[2]) + (1 - residual) * mean
            total = mixed if total is None else mixed @ total
        assert total is not None
        return total

    def compare(self, other: "Seen") -> list[dict[str, Any]]:
        """Which heads changed between two runs, the most changed first: difference of the means of each statistic."""
        mine, theirs = self.summary(), other.summary()
        if [(row["call"], row["head"]) for row in mine] != [(row["call"], row["head"]) for row in theirs]:
            raise ValueError("the two runs made different calls; compare runs of the same model")
        rows = []
        for a, b in zip(mine, theirs, strict=True):
            change = {key: b[key] - a[key] for key in ("entropy", "distance", "spread", "sink")}
            rows.append({"call": a["call"], "head": a["head"], **change})
        return sorted(rows, key=lambda row: -abs(row["entropy"]) - abs(row["sink"]))


def nothing_seen(model: nn.Module) -> str:
    """Why no call may have been recorded, and what to do."""
    compiled = any("OptimizedModule" in type(module).__name__ for module in model.modules())
    reasons = [
        "nothing was run inside the with-block",
        "the model makes attention with a kernel of its own (flash-attn, xformers, a CUDA extension)",
        "eager attention whose softmax is hidden in a custom function",
        "only= chose no module that attends, or another thread ran the model",
    ]
    if compiled:
        reasons.insert(0, "the model is compiled (torch.compile): watch the model it was made from, model._orig_mod")
    return "no attention call was seen. Likely reasons: " + "; ".join(reasons)
