"""How the tensors of a recorded call are kept: by reference, as copies, or as statistics only."""

from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from regard.watching.call import Call
from regard.watching.call_inputs import TENSORS
from regard.watching.recorder.growing_keys import CacheTracker

Keep = Literal["inputs", "copies", "statistics"]
SHARED_FROM = 1 << 14  # copies of masks with at least this many elements are compared with earlier ones, and shared


class CallTensors:
    """Keeps the tensors of calls."""

    def __init__(self, keep: Keep) -> None:
        self.keep = keep
        self.caches = CacheTracker()
        self.copies: list[Tensor] = []  # copies of masks, which several calls may share

    def store(self, call: Call, keys: Any = None, values: tuple[Any, ...] = ()) -> None:
        """Keep the tensors of a call; `keys` and `values` are the tensors that the model passed."""
        if self.keep == "statistics":
            _keep_statistics(call)
        elif self.keep == "copies":
            call.map_tensors(self._copy)
        else:
            self._hold(call, keys, values)

    def _hold(self, call: Call, keys: Any, values: tuple[Any, ...]) -> None:
        """Keep references to the tensors of a call; inference tensors, whose changes cannot be detected, are copied."""
        fields, versions = vars(call), {}
        for name, x in (("keys", keys), ("values", values[0] if values else None)):
            if isinstance(x, Tensor) and isinstance(fields[name], Tensor) and len(x) == call.shape[0]:
                stored = self.caches.store(x)
                if stored is not None and stored[1] == call.shape[3]:
                    fields[name] = partial(stored[0].first, stored[1])
        for name in TENSORS:
            x = fields[name]
            if isinstance(x, Tensor):
                if x.is_inference():
                    fields[name] = self._copy(name, x)
                    continue
                versions[name] = x._version
                if name in ("keys", "values"):
                    call.write_logs[name] = self.caches.write_log(x)
        call.remember_versions(versions)

    def _copy(self, name: str, x: Tensor) -> Tensor:
        """Return a copy of a tensor; calls with equal masks share one copy."""
        if name not in ("boolean_mask", "bias") or x.numel() < SHARED_FROM:
            return x.clone()
        for copy in self.copies:
            if copy.shape == x.shape and copy.dtype == x.dtype and copy.device == x.device and torch.equal(copy, x):
                return copy
        self.copies = [*self.copies[-3:], x.clone()]
        return self.copies[-1]


def _keep_statistics(call: Call) -> None:
    """Compute the statistics of a call and drop everything else."""
    call.stored_statistics = call.statistics
    call.positions  # noqa: B018 (a property that is computed from the masks, which are dropped now)
    call.stored_sink = call.sink()
    call.__dict__.pop("statistics", None)
    call.computed.clear()
    call.queries = call.keys = call.values = call.outputs = None
    call.eager_weights = call.boolean_mask = call.bias = call.sinks = call.score_function = None
