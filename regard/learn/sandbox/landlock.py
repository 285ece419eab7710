"""Landlock: the kernel refuses to this process every file outside a list, TCP, and signals to other processes.

No privileges are needed, and the restriction can never be lifted. Rights not granted here are refused: executing any
file, making links, sockets, pipes or devices, and (from ABI 4) TCP, (from ABI 6) abstract sockets and signals to
processes outside. Landlock does not control changes of permissions, owners and times; `seccomp` refuses these.
"""

import ctypes
import os

from regard.learn.sandbox import file_view
from regard.learn.sandbox.system_calls import NotAvailable, architecture, call, libc_call

# Access rights of linux/landlock.h, in order of their bits; `FIRST_ABI` says which version introduced the later ones.
RIGHTS = (
    "execute", "write_file", "read_file", "read_dir", "remove_dir", "remove_file", "make_char", "make_dir", "make_reg",
    "make_sock", "make_fifo", "make_block", "make_sym", "refer", "truncate", "ioctl_dev",
)  # fmt: skip
FIRST_ABI = {"refer": 2, "truncate": 3, "ioctl_dev": 5}
READ_FILE = {"read_file"}
READ = {"read_file", "read_dir"}
DEVICE = {"read_file", "write_file", "truncate"}
WORKSPACE = READ | {"write_file", "remove_dir", "remove_file", "make_dir", "make_reg", "refer", "truncate"}
PATH_BENEATH = 1  # kind of rule
NO_NEW_PRIVILEGES = 38  # prctl


class Ruleset(ctypes.Structure):
    """struct landlock_ruleset_attr: what the ruleset controls."""

    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class PathRule(ctypes.Structure):
    """struct landlock_path_beneath_attr: rights on a file, or on everything in a folder."""

    _pack_ = 1
    _fields_ = (("rights", ctypes.c_uint64), ("file", ctypes.c_int32))


def abi_version() -> int:
    """Return the version of Landlock in this kernel; raise `NotAvailable` if there is none."""
    architecture()
    try:
        return call("landlock_create_ruleset", None, 0, 1)
    except OSError as error:
        raise NotAvailable(f"the kernel does not offer Landlock ({error.strerror})") from None


def restrict(workspace: str, roots: list[str], hidden: list[str]) -> int:
    """Restrict this thread and its future children to the workspace and reading the roots; return the ABI version.

    What is hidden cannot be read even if it is inside a root.
    """
    abi = abi_version()
    handled = _bits(set(RIGHTS), abi)
    attributes = Ruleset(handled, 0b11 if abi >= 4 else 0, 0b11 if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    ruleset = call("landlock_create_ruleset", ctypes.byref(attributes), size, 0)
    for path in file_view.outermost(list(dict.fromkeys(map(os.path.realpath, roots)))):
        for part, complete in file_view.without_hidden(path, set(map(os.path.realpath, hidden))):
            _allow(ruleset, part, READ if complete else {"read_dir"}, abi)
    for path in file_view.DEVICES:
        _allow(ruleset, path, DEVICE, abi)
    _allow(ruleset, workspace, WORKSPACE, abi)
    libc_call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    call("landlock_restrict_self", ruleset, 0)
    os.close(ruleset)
    return abi


def _allow(ruleset: int, path: str, rights: set[str], abi: int) -> None:
    try:
        file = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # for example a dangling link in site-packages
        return
    try:
        if not os.path.isdir(path):
            rights = rights & {"read_file", "write_file", "truncate"}
        if rights:
            rule = PathRule(_bits(rights, abi), file)
            call("landlock_add_rule", ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(file)


def _bits(rights: set[str], abi: int) -> int:
    return sum(1 << RIGHTS.index(right) for right in rights if FIRST_ABI.get(right, 1) <= abi)
