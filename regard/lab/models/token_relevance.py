"""Relevance of the tokens of the learner's text for what the model predicts, in the view Your model."""

from typing import TYPE_CHECKING, Any

from regard.lab.models.model_edits import Edit, edited
from regard.lab.models.watched_models import WatchedRun

if TYPE_CHECKING:
    from torch import Tensor


def token_relevance(run: WatchedRun, edits: tuple[Edit, ...]) -> dict[str, Any]:
    """Return the tokens of the text and their relevance, for the prediction of the model with the edits.

    kind        translation: for the scores of the whole translation; next: for the score of the next token;
                embedding: for the length of the sentence vector
    tokens, values

    >>> from regard.lab.models.watched_models import watch_text
    >>> answer = token_relevance(watch_text("phrases", "The cat sat on the mat"), ())
    >>> answer["kind"], answer["tokens"]
    ('translation', ['The', 'cat', 'sat', 'on', 'the', 'mat'])
    """
    import torch

    import regard

    model = run.model.named.model
    with torch.enable_grad(), edited(run, edits), regard.watch(model) as seen:
        out: Any = model(*run.inputs.args, **run.inputs.kwargs)
        kind, target = _target(run, out)
    source = kind == "translation"
    values = seen.relevance(target, source=source)[0].tolist()
    names = run.names[0][1] if source else run.names[0][0]
    return {"kind": kind, "tokens": names, "values": values}


def _target(run: WatchedRun, out: Any) -> "tuple[str, Tensor]":
    if run.model.run is None:
        return "embedding", out.last_hidden_state[0].mean(0).norm()
    scores = out[0]
    if run.model.run.task == "translate":
        written = run.inputs.args[1][0, 1:]
        return "translation", scores[:-1].gather(1, written[:, None]).sum()
    return "next", scores[-1].max()
