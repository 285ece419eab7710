"""The layers of the sandbox: the seccomp filter on both architectures, the report of `regard learn doctor`, texts."""

import errno
import json
import struct

import pytest
from typer.testing import CliRunner

from regard.cli import app
from regard.learn.sandbox import seccomp
from regard.learn.sandbox.control_group import control_group
from regard.learn.sandbox.file_view import hidden_paths, without_hidden
from regard.learn.sandbox.layers import LAYERS, check_protection, remaining
from regard.learn.sandbox.run_in_child_process import Runner
from regard.learn.sandbox.serialization import pack, unpack
from regard.learn.sandbox.system_calls import AUDIT_ARCHITECTURES
from regard.learn.sandbox.visible_text import visible_text

EPERM, ENOSYS = (seccomp.ERROR | code for code in (errno.EPERM, errno.ENOSYS))
# System calls by name: (x86_64, aarch64), from the kernel's tables.
REFUSED = {
    "execve": (59, 221), "execveat": (322, 281), "socket": (41, 198), "ptrace": (101, 117), "kill": (62, 129),
    "mount": (165, 40), "unshare": (272, 97), "setns": (308, 268), "bpf": (321, 280), "io_uring_setup": (425, 425),
    "memfd_create": (319, 279), "process_vm_readv": (310, 270), "keyctl": (250, 219), "setrlimit": (160, 164),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "fchmodat": (268, 53), "mknodat": (259, 33),
    "symlinkat": (266, 36), "linkat": (265, 37), "seccomp": (317, 277), "landlock_restrict_self": (446, 446),
    "pidfd_open": (434, 434), "a later kernel's": (9999, 9999), "x32 write": (0x40000001, 0x40000001),
}  # fmt: skip


def action(machine: str, number: int, *arguments: int, architecture: int | None = None) -> int:
    """Return what the filter decides, by interpreting its program."""
    values = [*arguments, 0, 0, 0, 0, 0, 0][:6]
    data = struct.pack("=iIQ6Q", number, architecture or AUDIT_ARCHITECTURES[machine], 0, *values)
    program, at, loaded = seccomp.filter_program(machine, 7), 0, 0
    while True:
        operation, if_true, if_false, operand = program[at]
        at += 1
        if operation == seccomp.RETURN:
            return operand
        if operation == seccomp.LOAD:
            loaded = struct.unpack_from("=I", data, operand)[0]
        else:
            holds = loaded == operand if operation == seccomp.EQUAL else loaded & operand != 0
            at += if_true if holds else if_false


@pytest.mark.parametrize("machine", AUDIT_ARCHITECTURES)
def test_the_filter_allows_calculations_only(machine: str) -> None:
    place = list(AUDIT_ARCHITECTURES).index(machine)
    assert {name: action(machine, numbers[place]) for name, numbers in REFUSED.items()} == dict.fromkeys(REFUSED, EPERM)
    for read_write_mmap in ((0, 63), (1, 64), (9, 222)):
        assert action(machine, read_write_mmap[place]) == seccomp.ALLOW
    assert action(machine, 0, architecture=0x40000003) == seccomp.KILL
    clone, ioctl, fcntl, tgkill, limits = ((56, 220), (16, 29), (72, 25), (234, 131), (302, 261))
    thread = 0x3D0F00
    cases = {
        (clone, thread): seccomp.ALLOW, (clone, 17): EPERM, (clone, thread | 0x10000000): EPERM,
        ((435, 435), 0): ENOSYS,
        (ioctl, 1, 0x5401): seccomp.ALLOW, (ioctl, 1, 0x5412): EPERM, (ioctl, 1, 0x5412 | 1 << 32): EPERM,
        (fcntl, 1, 1030): seccomp.ALLOW, (fcntl, 1, 8): EPERM,
        (tgkill, 7, 7, 6): seccomp.ALLOW, (tgkill, 8, 8, 6): EPERM,
        (limits, 0, 7, 0, 1): seccomp.ALLOW, (limits, 1, 7, 0, 1): EPERM, (limits, 0, 7, 1 << 33, 0): EPERM,
    }  # fmt: skip
    for (numbers, *arguments), expected in cases.items():
        assert action(machine, numbers[place], *arguments) == expected, (numbers, arguments)


def test_doctor_reports_every_layer_in_both_languages() -> None:
    report = json.loads(CliRunner().invoke(app, ["learn", "doctor", "--json"]).output)
    assert [layer["key"] for layer in report["layers"]] == list(LAYERS)
    assert all(layer["active"] or layer["detail"]["zh"] for layer in report["layers"])
    shown = CliRunner().invoke(app, ["learn", "doctor", "--lang", "zh"])
    assert "审计钩子" in shown.output
    contained = report["isolated"] and not any(possible for _, possible in report["trials"])
    assert shown.exit_code == (0 if contained else 1)


def test_without_layers_the_trials_succeed_and_this_is_reported() -> None:
    """The trials can fail: they are not refused by something else on this machine."""
    report = check_protection(Runner(disabled_layers=frozenset(LAYERS)))
    assert [possible for _, possible in report.trials] == [True] * 6
    assert not report.isolated
    texts = [text["en"] for text in report.remains]
    for part in ("every file", "use the network", "start processes", "send signals"):
        assert any(part in text for text in texts), part


@pytest.mark.parametrize("layer", ["landlock", "mount", "seccomp"])
def test_one_missing_layer_is_not_reported_as_a_hole(layer: str) -> None:
    """Without Landlock, the folders above the Python installation can be listed, but they hold nothing else."""
    if any(not active.active for active in check_protection().layers if active.key in ("landlock", "mount", "pid")):
        pytest.skip("needs Landlock and namespaces")
    report = check_protection(Runner(disabled_layers=frozenset({layer})))
    possible = {name["en"] for name, possible in report.trials if possible}
    assert possible <= ({"start a process"} if layer == "seccomp" else set())
    assert report.isolated


def test_what_remains_depends_on_the_layers() -> None:
    def texts(active: set[str], abi: int = 7) -> str:
        return " ".join(text["en"] for text in remaining(dict.fromkeys(active, ""), abi))

    assert "whether a file exists" in texts({"landlock", "seccomp"})
    assert "every file" not in texts({"landlock", "seccomp"})
    assert "except TCP" in texts({"landlock"})
    assert "send signals" not in texts({"landlock"})
    assert "send signals" in texts({"landlock"}, abi=5)
    assert "use the network" in texts({"landlock"}, abi=3)
    assert len(remaining(dict.fromkeys(LAYERS, ""), 7)) == 4


def test_a_copy_of_regard_among_the_libraries_is_hidden(tmp_path: object) -> None:
    packages = tmp_path / "site-packages"  # type: ignore[operator]
    for name in ("regard/learn", "regard-1.0.dist-info", "numpy/linalg"):
        (packages / name).mkdir(parents=True)
    (packages / "copy").symlink_to(packages / "regard")
    (packages / "paths.pth").write_text("/home/me/project")
    (packages / "code.pth").write_text("import sys")
    hidden = hidden_paths([str(packages)], str(packages / "regard"))
    names = {path.removeprefix(f"{packages}/") for path in hidden if path.startswith(str(packages))}
    assert names == {"regard", "regard-1.0.dist-info", "paths.pth"}
    readable = {path.removeprefix(str(packages)): whole for path, whole in without_hidden(str(packages), set(hidden))}
    assert readable == {"": False, "/numpy": True, "/code.pth": True}


def test_a_cgroup_is_removed() -> None:
    with control_group(1 << 30) as (group, text):
        assert text
        assert group is None or group.exists()
    assert group is None or not group.exists()


def test_invisible_characters_are_escaped() -> None:
    kept = "é ü 行 ∑ x² 👩\u200d💻 \n\t"
    assert visible_text(kept) == kept
    hidden = "\x00\x07\x08\x1b\x7f\x85\x9b\u200b\u200e\u202a\u202e\u2028\u2066\u2069\ufeff\U000e0041\ud800"
    assert visible_text(hidden).isascii()
    assert visible_text(hidden).isprintable()
    assert visible_text("line\r\nline") == "line\nline"
    assert visible_text("x" * 50, 10) == "x" * 10 + "…"


def test_bytes_cannot_be_read_twice() -> None:
    """A few bytes of a learner's process must not become gigabytes here."""
    packed = pack([b"abcd", b"efgh"])
    assert unpack(packed) == [b"abcd", b"efgh"]
    with pytest.raises(ValueError, match="not a packed value"):
        unpack(packed.replace(b"[4, 4]", b"[0, 8]"))
    with pytest.raises(ValueError, match="not a packed value"):
        unpack(struct.pack("<Q", 5 << 20) + b" " * (5 << 20))
