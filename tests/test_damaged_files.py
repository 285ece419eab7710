"""Damaged files of users: every reader must answer with a mistake of the user, never with a defect of regard.

A reader gets the file that regard writes, damaged in every way below. It may still read it (a text cut in half is a
text); otherwise its error must be one that `regard.cli.errors` reports in one line, and must name the file.
"""

import contextlib
import copy
import io
import json
import random
import re
import shutil
import tarfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open

from regard import claims, cli, connectx, learn, models, training
from regard.attention import Trace, trace
from regard.cli.errors import is_user_error
from regard.connectx.arena import move_quality
from regard.connectx.data.label_storage import read_labels
from regard.connectx.game.openings import openings
from regard.connectx.players.agent_file import AgentFile
from regard.connectx.solver.build_book import load_layers
from regard.connectx.solver.opening_book import Book, load_book
from regard.connectx.training import run as board_run
from regard.lab.models.board_attention import describe_network
from regard.training.data.pairs import read_tsv
from regard.training.data.text import read_texts
from regard.training.run import read_config
from regard.watching.named_models import input_from_file
from regard.watching.training_telemetry.log_files import JsonLines, read_telemetry

SIZES: dict[str, Any] = {"channels": 8, "heads": 2, "layers": 1, "attn_every": 1, "lines": 3}
NETWORKS = Path(connectx.__file__).parent / "networks"
NOISE = bytes(range(256)) * 4
REPLACEMENTS: tuple[Any, ...] = (None, "wrong", [3])

pytestmark = pytest.mark.usefixtures("unchecked")


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of every kind, as regard writes them."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "pairs.tsv").write_text("".join(f"word {n}\tWort {n}\n" for n in range(40)))
    config = training.make_run_config(
        "translate", (str(folder / "pairs.tsv"),), tokenizer="words",
        sizes={"d_model": 8, "heads": 2, "layers": 1},
        settings={"steps": 3, "evaluate_every": 1, "checkpoint_every": 1},
    )  # fmt: skip
    _stop_after_a_checkpoint(lambda report: training.train(config, folder / "text", report=report))
    connectx.label(
        folder / "labels", connectx.LabelOptions((4, 5, 3), fewest=3), positions=200, table_bits=16, processes=1
    )
    _stop_after_a_checkpoint(
        lambda report: connectx.train(
            folder / "board", labels=folder / "labels", sizes=SIZES, steps=3, threads=1, evaluate_every=1,
            checkpoint_every=1, report=report,
        )
    )  # fmt: skip
    (folder / "openings.txt").write_text("44\n43 # close\n")
    connectx.run_arena(["greedy", "random"], games=2, opening="random", file=folder / "games.jsonl")
    shutil.copytree(move_quality.SHIPPED_SETS, folder / "sets")
    Book(2, 2, 2, {0: np.ones(1, np.uint8)}, (0,)).save(folder / "small.book")
    np.save(folder / "3x3x3-0.npy", np.ones(1, np.uint8))
    shutil.copy(claims.SHIPPED / "mask.json", folder / "mask.json")
    progress = learn.Progress.load(folder / "learn.json")
    progress.record_hint(learn.exercises()[0])
    progress.drills["softmax:1"] = {"level": 3, "passed": True, "wrong": [], "last": "2030-01-01T00:00:00"}
    progress.flow["self-attention"] = {"done": True, "tries": 1, "last": "2030-01-01T00:00:00"}
    progress.save()
    with tarfile.open(folder / "agent.tar.gz", "w:gz") as tar:
        entry = tarfile.TarInfo("main.py")
        source = b"def agent(observation, configuration): return 2\n" + b"# " + NOISE.hex().encode()
        entry.size = len(source)
        tar.addfile(entry, io.BytesIO(source))
    np.savez(folder / "input.npz", src=np.ones((2, 3)))
    lines = JsonLines(folder / "telemetry.jsonl", 0)
    for step in range(3):
        lines.add({"step": step, "module": "attn", "entropy": [0.25, None]})
    (folder / "trace.json").write_text(trace(np.eye(2), np.eye(2), np.eye(2), mask=None).to_json())
    return folder


def _stop_after_a_checkpoint(train: Callable[[Callable[[Any], None]], object]) -> None:
    def report(row: dict[str, Any]) -> None:
        if row["step"] == 2:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        train(report)


def _use_progress(folder: Path) -> None:
    progress = learn.Progress.load(folder / "learn.json")
    if progress.notice is None:  # otherwise the learner is told that the file was renamed
        learn.checklist(progress)
        for exercise in learn.exercises():
            progress.record_hint(exercise)
        progress.record_diagram("self-attention", True, datetime.now(UTC))


def _use_claim(folder: Path) -> None:
    claim = claims.claim_named("mask")
    claims.claim_text(claim, folder, "en")
    claims.claims_table([claim], folder, "en")


def _command(*arguments: str) -> Callable[[Path], None]:
    """Return a reader that runs the command, with {} for the folder, and raises the error that it reports."""

    def command(folder: Path) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as stderr:
            code = cli.main([argument.format(folder) for argument in arguments])
        message = stderr.getvalue().strip()
        assert code in (0, 2), f"exit code {code}: {message}"
        if code == 2:
            assert "\n" not in message, message
            raise ValueError(message)

    return command


# Name of the test: (the damaged file, what reads it).
READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "labels": ("labels/labels.json", lambda folder: read_labels(folder / "labels")),
    "label shard": ("labels/000000002.npy", lambda folder: read_labels(folder / "labels")),
    "model": ("text/model.json", lambda folder: models.load(folder / "text")),
    "weights": ("text/model.safetensors", lambda folder: models.load(folder / "text")),
    "board model": ("board/model.json", lambda folder: connectx.load_network(folder / "board")),
    "start": ("board/model.json", lambda folder: board_run.network_config("distill", start=folder / "board")),
    "lab network": ("board/model.json", lambda folder: describe_network(folder / "board")),
    "lab weights": ("board/model.safetensors", lambda folder: describe_network(folder / "board")),
    "tokenizer": ("text/tokenizer.json", lambda folder: training.load(folder / "text").generate("word 3")),
    "run": ("text/run.json", lambda folder: training.load(folder / "text")),
    "configuration": ("text/run.json", lambda folder: read_config(folder / "text")),
    "metrics": ("text/metrics.jsonl", lambda folder: training.resume(folder / "text")),
    "checkpoint": ("text/checkpoints/00000001/state.json", lambda folder: training.resume(folder / "text")),
    "checkpoint tensors": (
        "text/checkpoints/00000001/state.safetensors", lambda folder: training.resume(folder / "text")
    ),
    "board run": ("board/run.json", lambda folder: board_run.read_board_configs(folder / "board")),
    "board checkpoint": (
        "board/checkpoints/00000001/state.json", lambda folder: board_run.resume_run(folder / "board")
    ),
    "pairs": ("pairs.tsv", lambda folder: read_tsv(folder / "pairs.tsv")),
    "text": ("pairs.tsv", lambda folder: read_texts([folder / "pairs.tsv"])),
    "openings": ("openings.txt", lambda folder: list(openings(str(folder / "openings.txt"), 2))),
    "resumed games": (
        "games.jsonl",
        lambda folder: connectx.run_arena(["greedy", "random"], games=2, opening="random", file=folder / "games.jsonl"),
    ),
    "standard sets": ("sets/L1_R1.txt", lambda folder: move_quality.set_bitboards(folder / "sets")),
    "book": ("small.book", lambda folder: load_book(folder / "small.book")),
    "book layer": ("3x3x3-0.npy", lambda folder: load_layers(folder, 3, 3, 3)),
    "claim": ("mask.json", _use_claim),
    "progress": ("learn.json", _use_progress),
    "agent": ("agent.tar.gz", lambda folder: AgentFile(folder / "agent.tar.gz")),
    "array input": ("input.npz", lambda folder: input_from_file(str(folder / "input.npz"))),
    "trace": ("trace.json", lambda folder: Trace.from_json((folder / "trace.json").read_bytes())),
    "metrics of a run": ("text/metrics.jsonl", lambda folder: training.read_metrics(folder / "text/metrics.jsonl")),
    "telemetry": ("telemetry.jsonl", lambda folder: read_telemetry(folder / "telemetry.jsonl")),
    "generate command": ("text/model.safetensors", _command("generate", "{}/text", "word 3")),
    "quality command": ("sets/L2_R1.txt", _command("connectx", "quality", "random", "--sets", "{}/sets")),
}  # fmt: skip


def _damages(content: bytes) -> Iterator[tuple[str, bytes | None]]:
    """Yield names and contents: damaged bytes, other JSON, and JSON with one key missing or of another type."""
    yield "directory", None
    yield "empty", b""
    yield "noise", NOISE
    yield "half", content[: len(content) // 2]
    yield "last byte missing", content[:-1]
    yield "start replaced", NOISE[:8] + content[8:]
    yield "end replaced", content[:-8] + NOISE[:8]
    yield "text", "no such thing, 没有\n".encode()
    yield "deep JSON", b"[" * 100_000
    for value in (*REPLACEMENTS, 3, [], {}, {"wrong": 3}):
        yield f"JSON {value}", json.dumps(value).encode()
    try:
        document = json.loads(content)
    except ValueError:
        return
    for path in _paths(document):
        yield f"without {path}", json.dumps(_changed(document, path)).encode()
        for value in REPLACEMENTS:
            yield f"{path} = {value}", json.dumps(_changed(document, path, value)).encode()


def _paths(document: Any, start: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the places in a JSON document, three levels deep; of lists only the first entry."""
    if len(start) < 3 and isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document[:1]):
            yield (*start, key)
            yield from _paths(value, (*start, key))


def _changed(document: Any, path: tuple[Any, ...], *value: Any) -> Any:
    """Return the document with another value at the path, or without the entry."""
    document = copy.deepcopy(document)
    place = document
    for key in path[:-1]:
        place = place[key]
    if value:
        place[path[-1]] = value[0]
    else:
        del place[path[-1]]
    return document


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READERS)
def test_a_damaged_file_is_a_mistake_of_the_user(name: str, examples: Path, tmp_path: Path) -> None:
    file, read = READERS[name]
    problems, part = [], Path(file).parts[0]
    for number, (damage, content) in enumerate(_damages((examples / file).read_bytes())):
        folder = tmp_path / str(number)
        folder.mkdir()
        copy_part = shutil.copytree if (examples / part).is_dir() else shutil.copy
        copy_part(examples / part, folder / part)
        (folder / file).unlink()
        if content is None:
            (folder / file).mkdir()
        else:
            (folder / file).write_bytes(content)
        try:
            read(folder)
        except Exception as error:
            if not is_user_error(error) and read.__name__ != "command":
                problems.append(f"{damage}: {type(error).__name__}: {str(error)[:100]}")
            elif Path(file).parts[0] not in str(error) and name != "trace":
                problems.append(f"{damage}: the message does not name the file: {str(error)[:100]}")
    assert not problems, f"{len(problems)} damages of {number + 1}:\n" + "\n".join(problems)


def _random_changes(content: bytes, count: int) -> Iterator[bytes]:
    """Yield the content with random bits, bytes or numbers changed; the same ones in every run."""
    rng = random.Random(len(content))
    for number in range(count):
        start, length = rng.randrange(len(content)), rng.choice((1, 4, 16))
        before, part, after = content[:start], content[start : start + length], content[start + length :]
        digit = re.search(rb"\d", part + after)
        match number % 6:
            case 0:
                yield before + bytes([part[0] ^ 1 << rng.randrange(8)]) + part[1:] + after
            case 1:
                yield before + after
            case 2:
                yield before + rng.randbytes(length) + part + after
            case 3:
                yield after[:length] + content[length:start] + content[:length] + after[length:]
            case 4:
                yield before
            case 5 if digit:
                place = start + digit.start()
                yield content[:place] + str((int(digit[0]) + 1) % 10).encode() + content[place + 1 :]


def _same_json(changed: bytes, content: bytes) -> bool:
    """Return whether all entries are the same; the name of the checksum may be damaged."""
    with contextlib.suppress(ValueError):
        new, old = json.loads(changed), json.loads(content)
        return isinstance(new, dict) and all(new.get(key) == old[key] for key in old if key != "checksum")
    return False


CHECKED = (
    "labels", "label shard", "model", "weights", "board model", "lab network", "tokenizer", "run", "checkpoint",
    "checkpoint tensors", "board run", "board checkpoint", "book", "claim", "trace",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHECKED)
def test_random_changes_are_found(name: str, examples: Path, tmp_path: Path) -> None:
    file, read = READERS[name]
    content = (examples / file).read_bytes()
    folder = tmp_path / "copy"
    shutil.copytree(examples, folder)
    for changed in _random_changes(content, 30):
        if changed != content and not _same_json(changed, content):
            (folder / file).write_bytes(changed)
            with pytest.raises(ValueError, match="trace" if name == "trace" else re.escape(Path(file).parts[0])):
                read(folder)


@pytest.mark.parametrize("name", ["metrics of a run", "telemetry", "resumed games"])
def test_a_changed_digit_in_lines_of_json_is_found(name: str, examples: Path, tmp_path: Path) -> None:
    file, read = READERS[name]
    content = (examples / file).read_bytes()
    (tmp_path / file).parent.mkdir(exist_ok=True)
    for digit in re.finditer(rb"\d", content):
        changed = content[: digit.start()] + str((int(digit[0]) + 1) % 10).encode() + content[digit.end() :]
        if list(map(json.loads, changed.splitlines())) == list(map(json.loads, content.splitlines())):
            continue  # the last digit of a float, which names the same number
        (tmp_path / file).write_bytes(changed)
        with pytest.raises(ValueError, match=re.escape(Path(file).parts[0])):
            read(tmp_path)


def test_shipped_files_have_checksums() -> None:
    tensors = [*training.run.SHIPPED.glob("*/model.safetensors"), *NETWORKS.glob("*/model.safetensors")]
    for file in tensors:
        with safe_open(file, framework="pt") as stream:
            assert "checksum" in (stream.metadata() or {}), file
        for description in file.parent.glob("*.json"):
            assert "checksum" in json.loads(description.read_text(encoding="utf-8")), description
    for file in claims.SHIPPED.glob("*.json"):
        assert "checksum" in json.loads(file.read_text(encoding="utf-8")), file
    assert len(tensors) > 3
