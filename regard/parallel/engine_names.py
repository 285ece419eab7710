"""Engines by name, for the command line."""

from regard.cpu_count import available_cores
from regard.parallel.engine import Engine, LocalEngine
from regard.parallel.ray_engine import RayEngine

ENGINES = ("processes", "ray")


def make_engine(name: str = "processes", address: str | None = None, processes: int = 0) -> Engine:
    """Return the engine of this name.

    name        "processes" or "ray"
    address     of a Ray cluster: HOST:PORT, "auto" for the one that runs on this machine; None starts Ray here
    processes   number of workers; 0 uses all cores

    >>> make_engine("spark")
    Traceback (most recent call last):
    ValueError: the engine must be processes or ray, got 'spark'
    """
    if name not in ENGINES:
        raise ValueError(f"the engine must be {' or '.join(ENGINES)}, got {name!r}")
    if processes < 0:
        raise ValueError(f"processes must be at least 0, got {processes}")
    if name == "processes":
        if address is not None:
            raise ValueError(f"an address needs the engine ray, got the address {address!r} with {name}")
        return LocalEngine(processes or available_cores())
    return RayEngine(address, processes)
