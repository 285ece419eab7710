"""Values of a network for very many positions, computed by the workers of an engine and saved meanwhile."""

import hashlib
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from regard import models
from regard.connectx.data.label_storage import Labels
from regard.connectx.game.bitboard import Shape
from regard.connectx.game.board_batch import planes_of
from regard.files import explain_damage, read_array, write_array
from regard.parallel import Engine, Handle, Work, engine_or_local
from regard.training.interrupts import stop_requested

BATCH = 512
SAVE_EVERY = 60.0  # seconds between two writes of the values
MAX_LOGIT = 7.0  # values before the tanh are clamped to ±7

Report = Callable[[str, int, int], None]  # called with the name of the phase, the positions done, and their total
Bits = NDArray[np.int64]
Task = tuple[int, Bits, Bits]  # index of the first position, and the positions and masks


def network_values(
    net: models.BoardNet, labels: Labels, folder: Path | None = None, *, processes: int = 1,
    engine: Engine | None = None, report: Report = lambda phase, done, total: None,
) -> NDArray[np.float32]:  # fmt: skip
    """Return the network's output before the tanh of the value, for each position and its mirror image, (N, 2).

    With `folder`, the values are saved there while they are computed, and an interrupted call continues. The name of
    the file is a hash of network and positions. The engine is by default one of `processes` processes.
    """
    values = np.full((len(labels), 2), np.nan, np.float32)
    file = None if folder is None else folder / _file_name(net, labels)
    if file is not None and file.exists():
        with explain_damage(file, "a file of network values", "remove it"):
            values[:] = read_array(file)
    remaining = [part for part in batches(len(labels)) if np.isnan(values[part]).any()]
    report("evaluating", len(labels) - sum(part.stop - part.start for part in remaining), len(labels))
    saved = time.monotonic()

    def save() -> None:
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            write_array(file, values)

    tasks = ((part.start, labels.position[part], labels.mask[part]) for part in remaining)
    with (
        stop_requested() as stop,
        engine_or_local(engine, processes) as engine,
        engine.start(_work(net, labels.shape, engine)) as pool,
    ):
        try:
            for (first, _, _), result in pool.results(tasks, stop=stop):
                values[first : first + len(result)] = result
                report("evaluating", len(result), len(labels))
                if time.monotonic() - saved > SAVE_EVERY:
                    save()
                    saved = time.monotonic()
        finally:
            save()
    return values


def _file_name(net: models.BoardNet, labels: Labels) -> str:
    parts = [labels.position.tobytes(), labels.mask.tobytes()]
    parts += [value.numpy().tobytes() for value in net.state_dict().values()]
    return f"values-{hashlib.sha256(b''.join(parts)).hexdigest()[:16]}.npy"


def _work(net: models.BoardNet, shape: Shape, engine: Engine) -> Work[Task, NDArray[np.float32]]:
    return Work(_prepare, (engine.share(net.for_inference()), shape), in_advance=1)


def _prepare(net: Handle, shape: Shape) -> Callable[[Task], NDArray[np.float32]]:
    def evaluate(task: Task) -> NDArray[np.float32]:
        planes = torch.from_numpy(planes_of(task[1], task[2], shape)).float()
        with torch.inference_mode():
            values = [net.value()(side).value[:, 0].double().atanh() for side in (planes, planes.flip(-1))]
        return torch.stack(values, 1).clamp(-MAX_LOGIT, MAX_LOGIT).float().numpy()

    return evaluate


def batches(count: int) -> list[slice]:
    """Return slices of BATCH positions that cover `count` positions."""
    return [slice(first, min(first + BATCH, count)) for first in range(0, count, BATCH)]
