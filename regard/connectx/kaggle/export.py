"""A player as one file for Kaggle.

The file carries the package's own modules as text, so what is submitted is what was tested; they are loaded as a small
package in memory. It needs NumPy, uses numba where there is one, and is slower but as careful without.
"""

import ast
import base64
import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path

from regard.connectx.players.registry import player

REGARD = Path(__file__).parents[2]  # the folder of the package regard
LARGEST = 10_000_000  # bytes of a file that we give out
SUBMISSION = "connectx.kaggle.submission"
ALPHA_BETA = "connectx.search.alpha_beta"
ROOTS = {  # by kind of player, the modules of regard that the exported file starts from
    "random": [ALPHA_BETA],
    "greedy": [ALPHA_BETA],
    "minimax": [ALPHA_BETA],
    "mcts": [ALPHA_BETA, "connectx.search.mcts"],
    "solver": [ALPHA_BETA, "connectx.solver.solver"],
    "network": [ALPHA_BETA, "connectx.players.network_player", "connectx.kaggle.numpy_network"],
}

TOP = '''"""A ConnectX agent for Kaggle: the player "{name}" of regard, in one file.

The last function, `agent(observation, configuration)`, is the agent. The texts below are modules of regard's package
(MIT licence), loaded as they are; with numba they are compiled at the first move, without it they run as Python.
"""

import base64
import sys

PACKAGE = "regard_{digest}"
SOURCES = {{}}
FILES = {{}}
'''

BOTTOM = '''

class _Texts:
    """Imports modules from the texts above; the packages that contain them are empty."""

    def find_spec(self, name, path=None, target=None):
        from importlib.machinery import ModuleSpec

        module = name.partition(".")[2]
        is_package = name == PACKAGE or any(other.startswith(module + ".") for other in SOURCES)
        if name == PACKAGE or name.startswith(PACKAGE + ".") and (is_package or module in SOURCES):
            return ModuleSpec(name, self, is_package=is_package)
        return None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__.partition(".")[2]
        if name in SOURCES:
            module.__file__ = "<" + module.__name__ + ">"
            exec(compile(SOURCES[name], module.__file__, "exec"), module.__dict__)
        elif not name:
            module.files = {name: base64.b85decode(text) for name, text in FILES.items()}


def _start():
    if PACKAGE not in sys.modules:
        sys.meta_path.append(_Texts())
    import importlib

    return importlib.import_module(PACKAGE + ".connectx.kaggle.submission").agent_of(PLAYER)


_agent = None


def agent(observation, configuration):
    """The column to play, counted from 0."""
    global _agent
    try:
        if _agent is None:
            _agent = _start()
        return _agent(observation, configuration)
    except Exception:
        board, columns = observation["board"], configuration["columns"]
        return min((c for c in range(columns) if board[c] == 0), key=lambda c: abs(2 * c - columns + 1))
'''


def export(name: str, out: str | os.PathLike[str]) -> Path:
    """Write the player of this name as a submission: `.py`, or `.tar.gz` with a main.py in it.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     export("greedy", f"{folder}/submission.py").stat().st_size < 100_000
    True
    """
    path = Path(out)
    if not path.name.endswith((".py", ".tar.gz")):
        raise ValueError(f"a submission is a .py or a .tar.gz, got {path.name!r}; give the file one of these endings")
    text = source(name).encode()
    if path.suffix != ".py":
        text = _packed(text)
    if len(text) > LARGEST:
        raise ValueError(f"the submission would have {len(text):,} bytes, more than {LARGEST:,}")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_bytes(text)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def source(name: str) -> str:
    """The text of the submission."""
    kind = name.partition(":")[0]
    if kind not in ROOTS:
        player(name)  # a name that means nothing is said as everywhere else
        raise ValueError(f"{name!r} cannot be exported; these can: {', '.join(ROOTS)}")
    player(name)
    modules = needed([SUBMISSION, *ROOTS[kind]])
    texts = {module: _embedded(module) for module in modules}
    files = _files() if kind == "solver" else _network(name) if kind == "network" else {}
    name = name if kind != "network" else _amount_alone(name)
    digest = hashlib.sha256("".join([name, *texts.values(), *files]).encode()).hexdigest()[:8]
    parts = [TOP.format(name=name, digest=digest), f"PLAYER = {name!r}\n"]
    for module, text in texts.items():
        parts.append(f"SOURCES[{module!r}] = r'''{text.replace('regard.', f'regard_{digest}.')}'''\n")
    for file, content in files.items():
        parts.append(f"FILES[{file!r}] = {base64.b85encode(content).decode()!r}\n")
    return "\n".join([*parts, BOTTOM])


def needed(modules: list[str]) -> list[str]:
    """Return these modules of regard and all that they import at their top, each before those that need it.

    >>> needed(["connectx.search.time_budget"])
    ['connectx.search.time_budget']
    """
    order: list[str] = []

    def visit(module: str) -> None:
        if module in order:
            return
        for node in ast.parse(_path(module).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("regard."):
                base = node.module.removeprefix("regard.")
                for name in [base] if _path(base).exists() else [f"{base}.{alias.name}" for alias in node.names]:
                    visit(name)
        order.append(module)

    for module in modules:
        visit(module)
    return order


def _path(module: str) -> Path:
    return REGARD.joinpath(*module.split(".")).with_suffix(".py")


def _embedded(module: str) -> str:
    """Return a module's source, which must fit into a raw string."""
    text = _path(module).read_text(encoding="utf-8")
    if "'''" in text:
        raise ValueError(f"{module} contains ''' and cannot be embedded; write it with other quotes")
    return text


def _files() -> dict[str, bytes]:
    """The solver's book, as it is: it is compressed."""
    book = REGARD / "connectx" / "books" / "6x7x4.book"
    return {"book": book.read_bytes()} if book.is_file() else {}


def _network(name: str) -> dict[str, bytes]:
    """The network that the player of this name plays by, without norms, in half precision."""
    from dataclasses import asdict

    from regard.connectx.kaggle.numpy_network import packed_network
    from regard.connectx.players.network_player import load_network, read_network_name

    net = load_network(read_network_name(name)[0]).for_inference()
    return {"network": packed_network(asdict(net.config), {k: v.numpy() for k, v in net.state_dict().items()})}


def _amount_alone(name: str) -> str:
    """The name without the folder of the network: that travels along.

    >>> _amount_alone("network:runs/mine:200"), _amount_alone("network:runs/mine")
    ('network:200', 'network')
    """
    last = name.rpartition(":")[2]
    return f"network:{last}" if last[:1].isdigit() else "network"


def _packed(text: bytes) -> bytes:
    """A .tar.gz with the text as main.py; the same text gives the same bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as squeezed, tarfile.open(fileobj=squeezed, mode="w") as tar:
        entry = tarfile.TarInfo("main.py")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    return buffer.getvalue()
