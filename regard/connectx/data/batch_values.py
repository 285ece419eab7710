"""What a network says of very many positions: computed once, by several processes, and kept while it comes."""

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
from regard.connectx.data.labels import Labels
from regard.connectx.game.board_batch import planes_of
from regard.files import write_atomic
from regard.training.interrupts import stop_requested

AT_ONCE = 512
SAVE_EVERY = 60.0  # seconds
SUREST = 7.0  # how far from 0 what a network says, before its tanh, is taken to be at most

Report = Callable[[str, int, int], None]  # what is being done, how much of it, of how much
Answers = Callable[[list[slice]], Iterator[tuple[slice, NDArray[np.float32]]]]


def judged_values(
    net: models.BoardNet,
    known: Labels,
    folder: Path | None = None,
    *,
    processes: int = 1,
    report: Report = lambda what, done, total: None,
) -> NDArray[np.float32]:
    """(N, 2): what the network says each position and its mirror image are worth, before its tanh.

    folder      where answers are kept while they come, in a file that says by its name of what they are
    """
    said = np.full((len(known), 2), np.nan, np.float32)
    kept = None if folder is None else folder / _name(net, known)
    if kept is not None and kept.exists():
        said = np.load(kept, allow_pickle=False)
    left = [part for part in parts_of(len(known)) if np.isnan(said[part]).any()]
    report("asking", len(known) - sum(part.stop - part.start for part in left), len(known))
    saved = time.monotonic()

    def save() -> None:
        if kept is not None:
            file = io.BytesIO()
            np.save(file, said)
            kept.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(kept, file.getvalue())

    with stop_requested() as stop, _workers(net, known, processes) as answers:
        try:
            for part, found in answers(left):
                said[part] = found
                report("asking", part.stop - part.start, len(known))
                if time.monotonic() - saved > SAVE_EVERY:
                    save()
                    saved = time.monotonic()
                if stop.is_set():
                    raise KeyboardInterrupt
        finally:
            save()
    return said


def _name(net: models.BoardNet, known: Labels) -> str:
    """Of the file that holds what this network says of these positions."""
    parts = [known.position.tobytes(), known.mask.tobytes(), *(v.numpy().tobytes() for v in net.state_dict().values())]
    return f"said-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}.npy"


@contextmanager
def _workers(net: models.BoardNet, known: Labels, processes: int) -> Iterator[Answers]:
    """What answers for parts of the positions: this process, or several."""
    if processes == 1:
        _prepare(net, known)
        yield lambda parts: map(_answer, parts)
        return
    context = multiprocessing.get_context("spawn")
    weights = {name: value.numpy() for name, value in net.state_dict().items()}
    given = (net.config, weights, known)
    pool = ProcessPoolExecutor(processes, context, initializer=_prepare_process, initargs=given)
    try:
        yield lambda parts: pool.map(_answer, parts)
    finally:
        pool.shutdown(cancel_futures=True)


_asking: tuple[models.BoardNet, Labels] | None = None


def _prepare_process(config: models.BoardConfig, weights: dict[str, NDArray[np.float32]], known: Labels) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    torch.set_num_threads(1)  # each process has a core
    net = models.BoardNet(config)
    net.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})
    _prepare(net.eval(), known)


def _prepare(net: models.BoardNet, known: Labels) -> None:
    global _asking
    _asking = net.for_inference(), known


def _answer(part: slice) -> tuple[slice, NDArray[np.float32]]:
    assert _asking is not None
    net, known = _asking
    planes = torch.from_numpy(planes_of(known.position[part], known.mask[part], known.shape)).float()
    with torch.inference_mode():
        values = [net(side).value[:, 0].double().atanh() for side in (planes, planes.flip(-1))]
    return part, torch.stack(values, 1).clamp(-SUREST, SUREST).float().numpy()


def parts_of(count: int) -> list[slice]:
    """So many positions, AT_ONCE at a time."""
    return [slice(first, min(first + AT_ONCE, count)) for first in range(0, count, AT_ONCE)]
