"""Checks that compare calls: repeated layers, axes in the wrong order, keys from the wrong sequence, caches."""

from collections import Counter
from itertools import pairwise

import torch
from torch import nn

from regard.watching.call import Call
from regard.watching.doctor.findings import Finding
from regard.watching.doctor.subject import Subject
from regard.watching.recorder.call_site import config_value

HEAD_COUNTS = ("num_heads", "heads", "num_attention_heads", "n_heads", "n_head", "nhead")


def find_repeated_layers(model: nn.Module, subjects: list[Subject], *, complete: bool) -> list[Finding]:
    """Return layers of one list that are the same module, have the same weights, or never ran while another ran twice.

    complete    whether all calls of the model were recorded
    """
    calls = Counter(subject.call.name for subject in subjects)
    findings = []
    for path, container in model.named_modules():
        if not isinstance(container, nn.ModuleList | nn.Sequential) or len(container) < 2:
            continue
        prefix = f"{path}." if path else ""
        layers = list(container)
        counts = [
            sum(n for name, n in calls.items() if f"{name}.".startswith(f"{prefix}{i}.")) for i in range(len(layers))
        ]
        if not any(counts):
            continue
        finding = _same_module(prefix, layers, counts) or _same_weights(model, path, prefix, layers, counts)
        if finding is None and complete:
            finding = _never_ran(prefix, layers, counts)
        if finding is not None:
            findings.append(finding)
    return findings


def _same_module(prefix: str, layers: list[nn.Module], counts: list[int]) -> Finding | None:
    for i, layer in enumerate(layers):
        for j in range(i):
            if layers[j] is layer and (counts[i] or counts[j]):
                message = f"layers {j} and {i} are one and the same module; [layer] * n repeats a reference: "
                message += (
                    "make a new layer for each place, or call one layer several times if they should share weights"
                )
                return Finding("repeated layers", f"{prefix}{i}", None, None, None, message)
    return None


def _same_weights(
    model: nn.Module, path: str, prefix: str, layers: list[nn.Module], counts: list[int]
) -> Finding | None:
    around = model.get_submodule(path.rpartition(".")[0]) if path else model
    if isinstance(around, nn.TransformerEncoder | nn.TransformerDecoder):
        return None  # torch copies one layer, so that all have the same weights before training
    attending = [i for i, count in enumerate(counts) if count]
    for i, j in pairwise(attending):
        a, b = layers[i], layers[j]
        if a is b or type(a) is not type(b):
            continue
        pairs = [(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=False) if x.dim() > 1]
        if pairs and all(x is y or (x.shape == y.shape and torch.equal(x, y)) for x, y in pairs):
            message = f"layers {i} and {j} have exactly the same weights; "
            message += "check that each layer is initialized or loaded by itself"
            return Finding("repeated layers", f"{prefix}{j}", None, None, None, message)
    return None


def _never_ran(prefix: str, layers: list[nn.Module], counts: list[int]) -> Finding | None:
    silent = [i for i, count in enumerate(counts) if not count]
    busy = [i for i, count in enumerate(counts) if count]
    same = all(type(layers[i]) is type(layers[busy[0]]) for i in range(len(layers)))
    if not silent or not same or len(busy) > 1 or counts[busy[0]] % len(layers):
        return None
    message = f"it attended {counts[busy[0]]} times and the other {len(silent)} layers of its list never; "
    message += "check the index in the loop over the layers"
    return Finding("repeated layers", f"{prefix}{busy[0]}", None, None, None, message)


def find_swapped_axes(subject: Subject, padding_shape: tuple[int, ...] | None) -> list[Finding]:
    """Return a finding if heads and tokens, or batch and tokens, seem to have changed places."""
    batch, heads, length, keys = subject.call.shape
    stated = _stated_heads(subject.module)
    if stated is not None and not subject.call.folded and heads != stated and length == keys == stated:
        message = f"the module has {stated} heads, but {length} queries attend to {keys} keys in {heads} heads: "
        message += "heads and tokens are swapped; transpose (B, L, H, d) to (B, H, L, d)"
        return [Finding("heads and tokens swapped", subject.call.name, None, None, None, message)]
    if padding_shape is not None and len(padding_shape) == 2 and padding_shape[0] != padding_shape[1]:
        items, tokens = padding_shape
        if (batch, length, keys) == (tokens, items, items):
            message = (
                f"{tokens} items with {items} tokens, but the padding describes {items} items of {tokens} tokens: "
            )
            message += "each token attends to the other items of the batch; check batch_first"
            return [Finding("batch and tokens swapped", subject.call.name, None, None, None, message)]
        if batch == items and heads == tokens != keys == length:
            message = f"attention is over {keys} keys in {heads} heads, but the items have {tokens} tokens: "
            message += "heads and tokens are swapped; transpose (B, L, H, d) to (B, H, L, d)"
            return [Finding("heads and tokens swapped", subject.call.name, None, None, None, message)]
    return []


def _stated_heads(module: nn.Module | None) -> int | None:
    for name in HEAD_COUNTS:
        if isinstance(count := getattr(module, name, None), int) and not isinstance(count, bool):
            return count
    return None


def find_wrong_sequence(subjects: list[Subject]) -> list[Finding]:
    """Return cross-attention that attends from the source to the target, or does not attend to the source."""
    sizes = {role: {s.call.shape[3] for s in subjects if s.role == role} for role in ("encoder", "decoder")}
    if len(sizes["encoder"]) != 1 or len(sizes["decoder"]) != 1 or sizes["encoder"] == sizes["decoder"]:
        return []
    (source,), (target,) = sizes["encoder"], sizes["decoder"]
    findings = []
    for subject in subjects:
        length, keys = subject.call.shape[2:]
        if subject.cross and (length, keys) == (source, target):
            message = (
                f"{length} queries attend to {keys} keys, but the source has {source} tokens and the target {target}: "
            )
            message += "queries come from the target, keys and values from the source"
            findings.append(Finding("queries and keys swapped", subject.call.name, None, None, None, message))
        elif subject.cross and (length, keys) == (target, target):
            message = f"cross-attention attends to {keys} keys, the target itself; the source has {source} tokens: "
            message += "pass the output of the encoder as keys and values"
            findings.append(Finding("source ignored", subject.call.name, None, None, None, message))
    return findings


def find_cache_errors(subjects: list[Subject]) -> list[Finding]:
    """Return modules whose cache loses its keys, or grows by more keys than there are queries."""
    calls: dict[str, list[Call]] = {}
    for subject in subjects:
        if not subject.cross:
            calls.setdefault(subject.call.name, []).append(subject.call)
    findings = []
    for name, steps in calls.items():
        sizes = [call.shape[2:] for call in steps]
        single = [size == (1, 1) for size in sizes]
        if len(sizes) > 3 and sizes[0][0] > 1 and all(single[1:]):
            message = f"after {sizes[0][0]} tokens, each of {len(sizes) - 1} single queries sees one key, its own; "
            message += "check that keys and values are added to the cache"
            findings.append(Finding("cache lost", name, None, 0, 0, message))
        grown = [
            after[1] - before[1] - after[0]
            for before, after in pairwise(sizes)
            if before[0] < before[1] and after[0] < after[1] and after[1] > before[1]
        ]
        if len(grown) > 1 and min(grown) > 0:
            message = f"each step adds {sizes[-1][0]} queries, but {sizes[-1][0] + grown[-1]} keys; "
            message += "check that keys and values are added to the cache once"
            findings.append(Finding("cache grows too fast", name, None, None, None, message))
    return findings


def find_head_order(subject: Subject) -> list[Finding]:
    """Return a finding if key heads are repeated as 0 1 0 1 although the model groups query heads as 0 0 1 1."""
    call = subject.call
    groups = getattr(subject.module, "num_key_value_groups", None)
    if not isinstance(groups, int) or groups < 2 or call.eager_weights is not None:
        return []
    heads, k = call.shape[1], call.k
    if k.shape[1] != heads or heads % groups or heads == groups:
        return []
    if torch.equal(k[:, 0], k[:, heads // groups]) and not torch.equal(k[:, 0], k[:, 1]):
        message = f"head 0 shares its keys with head {heads // groups}, not with head 1; "
        message += "repeat key and value heads with repeat_interleave, not with repeat"
        return [Finding("key heads in the wrong order", call.name, 1, None, None, message)]
    return []


def stated_window(subject: Subject) -> int | None:
    """Return the sliding window that the module or the configuration states for this call."""
    module, config = subject.module, subject.config
    window = config_value(config, "sliding_window")
    if module is not None and hasattr(module, "sliding_window"):
        window = module.sliding_window
    elif (kinds := config_value(config, "layer_types")) and isinstance(
        index := getattr(module, "layer_idx", None), int
    ):
        window = window if index < len(kinds) and kinds[index] == "sliding_attention" else None
    elif config_value(config, "layer_types") or not config_value(config, "use_sliding_window", True):
        window = None
    return window if isinstance(window, int) and window > 0 else None
