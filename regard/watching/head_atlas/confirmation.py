"""Confirmation of labels: what a model loses if the output of a head is set to 0 where its kind acts.

| kind | ablated at | confirmed if |
|---|---|---|
| induction | repeated tokens | their loss rises; also if only the token after the earlier one is hidden from the head |
| duplicate token | repeated tokens | their loss rises |
| retrieval | the last token of a needle test | the loss of the value rises |
| previous token, positional | all tokens | the loss of repeated tokens rises |
| sink | all tokens | the outputs change less than by the ablation of the mean head |

The effect on a loss is given as a share of what the model gains from the repetition: the loss of tokens that occur for
the first time minus that of repeated ones. Of a model that predicts no next tokens, or gains nothing, the effect is the
relative change of its output vectors at these tokens.
"""

from dataclasses import dataclass
from functools import cached_property
from glob import escape
from typing import Any

import torch
from torch import Tensor, nn

from regard.watching.head_atlas.model_runs import Run, next_token_losses, output
from regard.watching.head_atlas.test_inputs import TestInputs
from regard.watching.interventions.kinds import ablate
from regard.watching.recording import Recording

LEAST_GAIN = 0.1  # nats
LEAST_EFFECT = 0.05  # of the gain, or of the length of the output vectors
AT_QUERIES = ("induction", "duplicate token", "retrieval")


@dataclass(frozen=True)
class Effects:
    """Measures what ablating heads does to a model on the test inputs."""

    model: nn.Module
    run: Run
    inputs: TestInputs
    recordings: dict[str, Recording]
    outputs: dict[str, Tensor]

    @cached_property
    def predicts(self) -> bool:
        """Whether the output scores the next token, and the model gains from repetition."""
        out, ids = self.outputs["repeated"], self.inputs.repeated
        causal = all(
            bool((call.at_offset(1).abs() < 1e-6).all()) for call in self.recordings["repeated"].calls if not call.cross
        )
        decoder = causal or any(call.cross for call in self.recordings["repeated"].calls)
        return decoder and out.shape[-1] > int(ids.max()) and self._gain(out) > LEAST_GAIN

    def _gain(self, out: Tensor) -> float:
        losses = next_token_losses(out, self.inputs.repeated)
        first = self.inputs.start + self.inputs.unit
        return float(losses[:, self.inputs.start : first - 1].mean() - losses[:, first:].mean())

    def effect(self, call: int, head: int, kind: str) -> float:
        """Return the effect of ablating a head on what its kind is for."""
        test = "needles" if kind == "retrieval" else "repeated"
        ids = getattr(self.inputs, test)
        first = ids.shape[1] - 1 if kind == "retrieval" else self.inputs.start + self.inputs.unit
        queries = slice(first, None) if kind in AT_QUERIES else None
        name = self.recordings["repeated"].calls[call].name
        change: Any = ablate(heads=head, queries=queries)
        rise = self._change(test, first, kind, output(self.model, ids, self.run, {escape(name): change}))
        if kind == "induction":
            hidden = output(self.model, ids, self.run, {escape(name): self._hide_next(head)})
            rise = min(rise, self._change(test, first, kind, hidden))
        return rise

    def _hide_next(self, head: int) -> Any:
        """Return an intervention that hides from repeated tokens the token after their earlier occurrence."""
        start, unit = self.inputs.start, self.inputs.unit
        rows = torch.arange(start + unit, start + 2 * unit)

        def hide(call: Any) -> dict[str, Any]:
            weights = call.weights(head=head).clone()
            weights[:, rows, rows - unit + 1] = 0.0
            return {"weights": weights / weights.sum(-1, keepdim=True).clamp_min(1e-9), "head": head}

        return hide

    def _change(self, test: str, first: int, kind: str, after: Tensor) -> float:
        """Return the rise of the loss from token `first` on, or the change of the output vectors."""
        ids, before = getattr(self.inputs, test), self.outputs[test]
        if self.predicts and kind != "sink":
            if kind == "retrieval":
                value = ids[torch.arange(len(ids)), self.inputs.needle]
                rise = before.log_softmax(-1)[:, -1].gather(1, value[:, None]) - after.log_softmax(-1)[:, -1].gather(
                    1, value[:, None]
                )
                return float(rise.mean()) / self._gain(self.outputs["repeated"])
            rise = next_token_losses(after, ids)[:, first:] - next_token_losses(before, ids)[:, first:]
            return float(rise.mean()) / self._gain(before)
        a, b = before[:, first:], after[:, first:]
        return float((a - b).norm() / a.norm().clamp_min(1e-30))

    @cached_property
    def usual_change(self) -> float:
        """The mean relative change of the outputs by the ablation of a head, over at most 32 heads."""
        calls = self.recordings["repeated"].calls
        heads = [(number, head) for number, call in enumerate(calls) for head in range(call.shape[1])]
        chosen = heads[:: -(-len(heads) // 32)]
        return sum(self.effect(number, head, "sink") for number, head in chosen) / len(chosen)

    def is_confirmed(self, kind: str, effect: float) -> bool:
        """Return whether the effect of a head is that of its kind."""
        return effect < self.usual_change if kind == "sink" else effect >= LEAST_EFFECT
