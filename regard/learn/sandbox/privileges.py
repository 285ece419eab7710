"""Give up privileges: an unused user id if this is root, and no capabilities."""

import ctypes
import os
import stat

from regard.learn.sandbox.system_calls import NotAvailable, call, libc_call

CAPABILITIES_VERSION_3 = 0x20080522
FIRST_USER_ID, USER_IDS = 0x50000000, 0x10000000  # ids that no account of this machine is likely to have
INNER_ID = 1000  # user and group id in a user namespace
DROP_FROM_BOUNDING_SET = 24  # prctl
LAST_CAPABILITY = 63


def unused_id() -> int:
    """Return a user id that no other process is likely to have."""
    return FIRST_USER_ID + int.from_bytes(os.urandom(4), "little") % USER_IDS


def leave_root(paths: list[str], whole_path: bool, user_namespace: bool) -> None:
    """Change to a user id that no other process has, which gets the current folder.

    Raise `NotAvailable` if it could not read the paths.
    `whole_path` means that the folders above each path are those of the machine; otherwise they are ours and readable.
    """
    for path in paths:
        above = [os.path.realpath(path)]
        while whole_path and above[-1] != "/":
            above.append(os.path.dirname(above[-1]))
        for part in above:
            mode = os.stat(part).st_mode
            wanted = (
                stat.S_IXOTH if part is not above[0] else stat.S_IROTH | (stat.S_IXOTH if stat.S_ISDIR(mode) else 0)
            )
            if mode & wanted != wanted:
                raise NotAvailable("only root can read the Python installation")
    for candidate in (INNER_ID,) if user_namespace else (unused_id(), 65534):
        try:
            os.chown(".", candidate, candidate)
            if whole_path:
                os.chmod("..", 0o711)
            os.setgroups([])
            os.setresgid(candidate, candidate, candidate)
            os.setresuid(candidate, candidate, candidate)
            return
        except OSError as error:  # the id does not exist in this container
            reason = error.strerror
    raise NotAvailable(f"root may not change its user id here ({reason})")


def empty_bounding_set() -> None:
    """Give up the capabilities that a program started by this process could get."""
    for capability in range(LAST_CAPABILITY + 1):
        try:
            libc_call("prctl", DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
        except OSError:  # no such capability, or not allowed: then there is none to give up
            break


def drop_capabilities() -> None:
    """Give up all capabilities of this process."""
    header = (ctypes.c_uint32 * 2)(CAPABILITIES_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    call("capset", ctypes.byref(header), ctypes.byref(nothing))
