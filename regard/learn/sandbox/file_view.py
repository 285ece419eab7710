"""The files that a learner's process may see: system libraries, the Python installation, and its own folder.

`readable_roots` lists them and `hidden_paths` what is left out: regard itself, which contains the reference solutions,
and files of site-packages that name other folders. `landlock` and `mount_namespace` both use these lists.
"""

import os
import sys
import sysconfig
from collections.abc import Iterator

LIBRARIES = ("numpy", "torch", "einops")
PACKAGE_FOLDERS = ("site-packages", "dist-packages")
SYSTEM_LIBRARIES = ("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib")
PACKAGE_STORES = ("/nix/store", "/gnu/store")  # all libraries of NixOS and Guix are here
READABLE_FILES = ("/etc/ld.so.cache", "/proc/cpuinfo", "/proc/meminfo", "/sys/devices/system/cpu")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
HIDDEN_NAMES = ("regard", "regard-", "__editable__", "_editable_impl", "_regard")  # beginnings of names


def library_folders() -> list[str]:
    """Return the folders of the standard library and of installed packages, as sys.path spells them."""
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    packages = [folder for folder in sys.path if os.path.basename(folder) in PACKAGE_FOLDERS or _has_library(folder)]
    places = [os.path.join(folder, name) for folder in packages for name in LIBRARIES]
    linked = [place for place in places if os.path.islink(place)]
    zipped = [entry for entry in sys.path if entry.endswith(".zip")]
    return _existing([*folders, *packages, *linked, *zipped])


def readable_roots() -> list[str]:
    """Return all folders and files that the process may read, as literal and as resolved paths."""
    linked = [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder.startswith("/")]
    own = os.path.join(sys.base_prefix, "lib")
    stores = [store for store in PACKAGE_STORES if os.path.realpath(sys.executable or own).startswith(store)]
    roots = [*library_folders(), own, *SYSTEM_LIBRARIES, *stores, *linked, *READABLE_FILES]
    return _existing([*roots, *map(os.path.realpath, roots)])


def hidden_paths(folders: list[str], regard: str) -> list[str]:
    """Return what must not be visible: regard and its metadata, files that name folders, packages of other Pythons."""
    hidden = [regard]
    for parent in (sysconfig.get_paths()["stdlib"], *_other_pythons()):
        for other in (os.path.join(parent, name) for name in PACKAGE_FOLDERS):
            if os.path.isdir(other) and other not in folders and os.path.realpath(other) not in folders:
                hidden += [other, os.path.join(other, "regard")]
    for folder in dict.fromkeys([*folders, *map(os.path.realpath, folders)]):
        if os.path.isdir(folder):
            hidden += [os.path.join(folder, name) for name in os.listdir(folder) if _is_hidden(folder, name)]
    return _existing(hidden)


def _has_library(folder: str) -> bool:
    return any(os.path.isdir(os.path.join(folder, name)) for name in LIBRARIES)


def _other_pythons() -> list[str]:
    return [
        os.path.join(place, name)
        for place in ("/usr/lib", "/usr/local/lib")
        if os.path.isdir(place)
        for name in os.listdir(place)
        if name.startswith("python")
    ]


def _is_hidden(folder: str, name: str) -> bool:
    if name.startswith(HIDDEN_NAMES) or name.endswith(".egg-link"):
        return True
    if not name.endswith(".pth"):
        return False
    with open(os.path.join(folder, name), "rb") as file:
        return b"/" in file.read(1)


def without_hidden(root: str, hidden: set[str]) -> Iterator[tuple[str, bool]]:
    """Yield the paths that together cover `root` without the hidden ones, and whether all below each is readable.

    If something below is hidden, only the names of the folder are readable, and its entries follow one by one.
    """
    if root in hidden or (os.path.islink(root) and os.path.realpath(root) in hidden):
        return
    if not any(path.startswith(root + "/") for path in hidden):
        yield root, True
        return
    yield root, False
    for name in os.listdir(root):
        yield from without_hidden(os.path.join(root, name), hidden)


def outermost(paths: list[str]) -> list[str]:
    """Return the paths that are not inside another one of them.

    >>> outermost(["/usr/lib/python3", "/usr/lib", "/opt"])
    ['/usr/lib', '/opt']
    """
    return [path for path in paths if not any(path.startswith(other + "/") for other in paths)]


def _existing(paths: list[str]) -> list[str]:
    return [path for path in dict.fromkeys(map(os.path.abspath, paths)) if os.path.exists(path)]
