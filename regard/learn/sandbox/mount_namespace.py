"""Namespaces of the learner's process, and a file tree in which only what it needs exists.

The new root is a small read-only tmpfs. The roots of `file_view` are mounted in it read-only, and the workspace is a
tmpfs of limited size, which bounds the bytes that the learner's code writes in all files together. There is no /proc,
no home, no shell.
"""

import os
from contextlib import suppress

from regard.learn.sandbox import file_view
from regard.learn.sandbox.privileges import INNER_ID, unused_id
from regard.learn.sandbox.system_calls import NotAvailable, call, libc_call

WORKSPACE = "/workspace"
NAMESPACES = {  # linux/sched.h
    "user": 0x10000000, "mount": 0x00020000, "network": 0x40000000, "pid": 0x20000000, "ipc": 0x08000000,
    "uts": 0x04000000,
}  # fmt: skip
READ_ONLY, NO_SUID, NO_DEVICES, NO_EXEC, REMOUNT = 1, 2, 4, 8, 32
BIND, RECURSIVE, PRIVATE, RELATIVE_TIMES = 1 << 12, 1 << 14, 1 << 18, 1 << 21
DETACH = 2


def enter_namespaces(disabled: set[str]) -> dict[str, str]:
    """Enter new namespaces; return for each its name and why it is not available, "" if it is active."""
    states: dict[str, str] = {}
    for name in NAMESPACES:  # the user namespace first: it gives an ordinary user the right to create the others
        try:
            if name in disabled:
                raise NotAvailable("switched off")
            if name == "user":
                _enter_user_namespace()
            else:
                libc_call("unshare", NAMESPACES[name])
            states[name] = ""
        except (OSError, NotAvailable) as error:
            states[name] = _reason(error)
    if not states["uts"]:
        with suppress(OSError):
            libc_call("sethostname", b"sandbox", len(b"sandbox"))
    return states


def _enter_user_namespace() -> None:
    """Enter a user namespace; that of root has a second id, without rights outside, to which `leave_root` changes."""
    uid, gid = os.geteuid(), os.getegid()
    if uid != 0:
        libc_call("unshare", NAMESPACES["user"])
        for file, line in (
            ("setgroups", "deny"),
            ("uid_map", f"{INNER_ID} {uid} 1"),
            ("gid_map", f"{INNER_ID} {gid} 1"),
        ):
            _write(f"/proc/self/{file}", line)
        return
    # Only a process outside may map ids other than its own, so a helper does it.
    entered, says_entered = os.pipe()
    process, helper = os.getpid(), os.fork()
    if helper == 0:
        os.close(says_entered)
        written = os.read(entered, 1) and _map_ids_of_root(process)
        os._exit(0 if written else 1)
    os.close(entered)
    try:
        libc_call("unshare", NAMESPACES["user"])
        os.write(says_entered, b"!")
    finally:
        os.close(says_entered)
        _, status = os.waitpid(helper, 0)
    if status:
        raise NotAvailable("user ids cannot be mapped")


def _map_ids_of_root(process: int) -> bool:
    """Map root to itself, and INNER_ID to an id that nobody uses, or to nobody, or not at all; return the success."""
    unused = unused_id()
    for more in (f"\n{INNER_ID} {unused} 1", f"\n{INNER_ID} 65534 1", ""):
        with suppress(OSError):
            for kind in ("gid", "uid"):
                _write(f"/proc/{process}/{kind}_map", f"0 0 1{more}")
            return True
    return False


def enter_file_tree(folder: str, roots: list[str], hidden: list[str], size: int, files: int) -> None:
    """Make a new root at `folder` that contains only the roots and an empty workspace, and enter it."""
    _mount(None, "/", None, RECURSIVE | PRIVATE)
    _mount("tmpfs", folder, "tmpfs", NO_SUID, "size=1m,nr_inodes=4k,mode=755")
    targets = file_view.outermost(roots)
    for path in targets:
        _bind(path, folder + path)
    for path in file_view.DEVICES:
        if os.path.exists(path):
            _make_target(path, folder + path)
            _mount(path, folder + path, None, BIND)
    empty, nothing = f"{folder}/empty", f"{folder}/nothing"
    os.mkdir(empty, 0o555)
    os.close(os.open(nothing, os.O_CREAT, 0o444))
    for path in hidden:
        if os.path.exists(folder + path):
            source = empty if os.path.isdir(path) else nothing
            _mount(source, folder + path, None, BIND)
    workspace = folder + WORKSPACE
    os.mkdir(workspace)
    _mount("tmpfs", workspace, "tmpfs", NO_SUID | NO_DEVICES, f"size={size},nr_inodes={files},mode=777")
    _mount(None, folder, None, REMOUNT | BIND | READ_ONLY | NO_SUID)
    os.chdir(folder)
    _pivot_root()
    os.chdir(WORKSPACE)


def _write(file: str, text: str) -> None:
    with open(file, "w") as target:
        target.write(text)


def _bind(path: str, target: str) -> None:
    """Mount a path read-only at another place."""
    _make_target(path, target)
    try:
        _mount(path, target, None, BIND)
    except OSError:  # something below is mounted separately and may not be uncovered
        _mount(path, target, None, BIND | RECURSIVE)
    found = os.statvfs(target).f_flag
    # A user namespace may not clear the flags of a mount that it inherited.
    kept = found & (NO_SUID | NO_DEVICES | NO_EXEC | 1 << 10 | 1 << 11) | (RELATIVE_TIMES if found & 1 << 12 else 0)
    _mount(None, target, None, REMOUNT | BIND | READ_ONLY | NO_SUID | NO_DEVICES | kept)


def _make_target(path: str, target: str) -> None:
    """Create an empty folder or file to mount the path on."""
    if os.path.isdir(path):
        os.makedirs(target, exist_ok=True)
    elif not os.path.exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT, 0o444))


def _pivot_root() -> None:
    """Make the current folder the root and detach the old root."""
    call("pivot_root", b".", b".")
    libc_call("umount2", b".", DETACH)
    os.chdir("/")


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    libc_call("mount", *texts, flags, options.encode() or None)


def _reason(error: Exception) -> str:
    return str(error.strerror if isinstance(error, OSError) and error.strerror else error)
