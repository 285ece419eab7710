"""The versions of torch that regard supports; docs/compatibility.md has the results of the tests on them."""

OLDEST, NEWEST = (2, 6), (2, 15)  # as in pyproject.toml


class TorchVersionError(ImportError):
    """The installed version of torch is not one that regard supports."""


def check_torch_version(version: str) -> None:
    """Raise TorchVersionError unless regard has been tested with this version of torch.

    >>> check_torch_version("2.13.0+cpu")
    """
    major, minor = version.split(".")[:2]
    if not OLDEST <= (int(major), int(minor)) <= NEWEST:
        (a, b), (c, d) = OLDEST, NEWEST
        raise TorchVersionError(
            f"regard supports torch {a}.{b} to {c}.{d}, but torch {version} is installed; "
            f"run: pip install 'torch>={a}.{b},<{c}.{d + 1}'"
        )
