"""Values of a network for very many positions, computed in several processes and saved while they are computed."""

import hashlib
import io
import multiprocessing
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard import models
from regard.connectx.data.label_storage import Labels
from regard.connectx.game.board_batch import planes_of
from regard.files import explain_damage, write_atomic
from regard.training.interrupts import stop_requested

BATCH = 512
SAVE_EVERY = 60.0  # seconds between two writes of the values
MAX_LOGIT = 7.0  # values before the tanh are clamped to ±7

Report = Callable[[str, int, int], None]  # called with the name of the phase, the positions done, and their total
Evaluate = Callable[[list[slice]], Iterator[tuple[slice, NDArray[np.float32]]]]


def network_values(
    net: models.BoardNet, labels: Labels, folder: Path | None = None, *, processes: int = 1,
    report: Report = lambda phase, done, total: None,
) -> NDArray[np.float32]:  # fmt: skip
    """Return the network's output before the tanh of the value, for each position and its mirror image, (N, 2).

    With `folder`, the values are saved there while they are computed, and an interrupted call continues. The name of
    the file is a hash of network and positions.
    """
    values = np.full((len(labels), 2), np.nan, np.float32)
    file = None if folder is None else folder / _file_name(net, labels)
    if file is not None and file.exists():
        with explain_damage(file, "a file of network values", "remove it"):
            values[:] = np.load(file, allow_pickle=False)
    remaining = [part for part in batches(len(labels)) if np.isnan(values[part]).any()]
    report("evaluating", len(labels) - sum(part.stop - part.start for part in remaining), len(labels))
    saved = time.monotonic()

    def save() -> None:
        if file is not None:
            buffer = io.BytesIO()
            np.save(buffer, values)
            file.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(file, buffer.getvalue())

    with stop_requested() as stop, _workers(net, labels, processes) as evaluate:
        try:
            for part, result in evaluate(remaining):
                values[part] = result
                report("evaluating", part.stop - part.start, len(labels))
                if time.monotonic() - saved > SAVE_EVERY:
                    save()
                    saved = time.monotonic()
                if stop.is_set():
                    raise KeyboardInterrupt
        finally:
            save()
    return values


def _file_name(net: models.BoardNet, labels: Labels) -> str:
    parts = [labels.position.tobytes(), labels.mask.tobytes()]
    parts += [value.numpy().tobytes() for value in net.state_dict().values()]
    return f"values-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}.npy"


@contextmanager
def _workers(net: models.BoardNet, labels: Labels, processes: int) -> Iterator[Evaluate]:
    """Yield a function that evaluates batches of the positions, in this process or in several."""
    if processes == 1:
        _prepare(net, labels)
        yield lambda parts: map(_evaluate, parts)
        return
    context = multiprocessing.get_context("spawn")
    weights = {name: value.numpy() for name, value in net.state_dict().items()}
    arguments = (net.config, weights, labels)
    pool = ProcessPoolExecutor(processes, context, initializer=_prepare_process, initargs=arguments)
    try:
        yield lambda parts: pool.map(_evaluate, parts)
    finally:
        pool.shutdown(cancel_futures=True)


_worker: tuple[models.BoardNet, Labels] | None = None


def _prepare_process(config: models.BoardConfig, weights: dict[str, NDArray[np.float32]], labels: Labels) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process handles Ctrl-C
    torch.set_num_threads(1)  # each process uses one core
    net = models.BoardNet(config)
    net.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    _prepare(net.eval(), labels)


def _prepare(net: models.BoardNet, labels: Labels) -> None:
    global _worker
    _worker = net.for_inference(), labels


def _evaluate(part: slice) -> tuple[slice, NDArray[np.float32]]:
    assert _worker is not None
    net, labels = _worker
    planes = torch.from_numpy(planes_of(labels.position[part], labels.mask[part], labels.shape)).float()
    with torch.inference_mode():
        values = [net(side).value[:, 0].double().atanh() for side in (planes, planes.flip(-1))]
    return part, torch.stack(values, 1).clamp(-MAX_LOGIT, MAX_LOGIT).float().numpy()


def batches(count: int) -> list[slice]:
    """Return slices of BATCH positions that cover `count` positions."""
    return [slice(first, min(first + BATCH, count)) for first in range(0, count, BATCH)]
