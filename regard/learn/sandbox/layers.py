"""Which layers of isolation protect this machine from a learner's code, and what remains possible.

The texts are in layers.toml. `check_protection` runs a small program with the audit hook switched off, so that only the
kernel's layers stand between it and the machine, and reports what the program could do.
"""

import os
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from regard.languages import LANGUAGES, Bilingual, read_texts
from regard.learn.sandbox import serialization
from regard.learn.sandbox.control_group import control_group
from regard.learn.sandbox.landlock import abi_version
from regard.learn.sandbox.run_in_child_process import Request, Runner
from regard.learn.sandbox.system_calls import NotAvailable

TEXTS = Path(__file__).with_suffix(".toml")
LAYERS = (
    "user", "mount", "network", "pid", "ipc", "uts", "identity", "landlock", "seccomp", "limits", "cgroup", "audit",
)  # fmt: skip
NOT_REPORTED = "needs Linux"
TRIALS = """
import os, socket
def read(outside): return open(outside + "/secret").read()
def write(outside): return open(outside + "/new", "w")
def names(outside): return os.listdir(outside)
def start(outside): return os.fork() or os._exit(0)
def connect(outside): return socket.create_connection(("127.0.0.1", PORT), 2)
def stop(outside): return os.kill(PARENT, 0) is None
def possible(trial, outside):
    try:
        return bool(trial(outside))
    except (OSError, RuntimeError):
        return False
def f(outside): return [possible(trial, outside) for trial in (read, write, names, start, connect, stop)]
"""


@dataclass(frozen=True)
class Layer:
    """A layer: its name, what it does, whether it is active, and its version or settings, or why it is not active."""

    key: str
    title: Bilingual
    purpose: Bilingual
    active: bool
    detail: Bilingual


@dataclass(frozen=True)
class Protection:
    """The layers on this machine, what a trial program could do (name, possible), and what remains possible."""

    layers: tuple[Layer, ...]
    trials: tuple[tuple[Bilingual, bool], ...]
    remains: tuple[Bilingual, ...]
    isolated: bool


def check_protection(runner: Runner | None = None) -> Protection:
    """Run a trial program that tries to leave the sandbox, and return the state of every layer on this machine."""
    with tempfile.TemporaryDirectory() as outside, socket.create_server(("127.0.0.1", 0)) as listener:
        os.chmod(outside, 0o777)  # only the sandbox protects it
        secret = Path(outside, "secret")
        secret.write_text("secret")
        secret.chmod(0o666)
        values = {"PORT": listener.getsockname()[1], "PARENT": os.getpid()}
        program = "\n".join(f"{name} = {value!r}" for name, value in values.items()) + TRIALS
        disabled = (runner.disabled_layers if runner else frozenset()) | {"audit"}
        run = Runner(disabled_layers=disabled).run(Request(program, ["f"], [serialization.pack((outside,))]))
    if run.answer is None or "value" not in run.answer.get("outcomes", [{}])[0]:
        raise ChildProcessError(f"the trial program did not end as expected: {run.failure} {run.answer} {run.printed}")
    possible = serialization.unpack(run.answer["outcomes"][0]["value"])
    states = {layer: run.layers.get(layer, NOT_REPORTED) for layer in LAYERS}
    states["audit"] = ""  # switched off for the trial only
    names = _texts("trials")
    return Protection(
        tuple(_layer(key, states[key]) for key in LAYERS),
        tuple(zip(names, map(bool, possible), strict=True)),
        tuple(remaining(states)),
        run.isolated,
    )


def remaining(states: Mapping[str, str], abi: int | None = None) -> list[Bilingual]:
    """Return what code can still do when only the layers with the state "" are active."""
    missing = {layer for layer in LAYERS if states.get(layer, NOT_REPORTED) != ""}
    abi = _landlock_abi() if abi is None else abi
    files_open = {"mount", "landlock"} <= missing
    keys = {
        "files": files_open,
        "names": "mount" in missing and not files_open,
        "disk": "mount" in missing,
        "network": {"network", "seccomp"} <= missing and ("landlock" in missing or abi < 4),
        "sockets": {"mount", "seccomp"} <= missing,
        "udp": {"network", "seccomp"} <= missing and not ("landlock" in missing or abi < 4),
        "processes": {"pid", "seccomp"} <= missing,
        "signals": {"pid", "seccomp"} <= missing and ("landlock" in missing or abi < 6),
        "root": "identity" in missing,
        "limits": "limits" in missing,
    }
    return [
        text
        for key in ("always", *(key for key, applies in keys.items() if applies))
        for text in _texts("remains", key)
    ]


def _layer(key: str, state: str) -> Layer:
    entry = read_texts(TEXTS)["layers"][key]
    title, purpose = ({language: entry[language][part] for language in LANGUAGES} for part in (0, 1))
    detail = state
    if not state and key == "landlock":
        detail = f"ABI {_landlock_abi()}"
    if not state and key == "cgroup":
        with control_group(0) as (_, settings):
            detail = settings
    translated = read_texts(TEXTS)["reasons"].get(detail, detail)
    return Layer(key, title, purpose, not state, {"en": detail, "zh": translated})


def _landlock_abi() -> int:
    try:
        return abi_version()
    except NotAvailable:
        return 0


def _texts(*keys: str) -> list[Bilingual]:
    entry = read_texts(TEXTS)
    for key in keys:
        entry = entry[key]
    return [{"en": en, "zh": zh} for en, zh in zip(entry["en"], entry["zh"], strict=True)]
