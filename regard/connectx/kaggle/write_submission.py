"""Export a player as one file for Kaggle.

The file contains the source of regard's own modules, so the submitted code is the tested code. The file loads them as a
small package in memory. It needs NumPy, and uses numba if it is installed; without numba it is slower.
"""

import ast
import base64
import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path
from string import Template

from regard.connectx.players.registry import AGENT_FILES, KINDS, parse_name, player
from regard.files import write_atomic

REGARD = Path(__file__).parents[2]  # the folder of the package regard
MAX_BYTES = 10_000_000
SUBMISSION = "connectx.kaggle.submission_runtime"
TEMPLATE = Path(__file__).with_name("exported_file.template")  # text of the exported file, for `string.Template`


def export(name: str, out: str | os.PathLike[str]) -> Path:
    """Write the player of this name as a submission, and return its path.

    name        name of the player, as for `player`
    out         file to write: a `.py`, or a `.tar.gz` that contains main.py

    Raises ValueError if the file would be larger than Kaggle accepts.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     export("greedy", f"{folder}/submission.py").stat().st_size < 100_000
    True
    """
    path = Path(out)
    if not path.name.endswith((".py", ".tar.gz")):
        raise ValueError(f"the name of a submission must end in .py or .tar.gz, got {path.name!r}")
    text = source(name).encode()
    if path.suffix != ".py":
        text = _archive(text)
    if len(text) > MAX_BYTES:
        raise ValueError(f"a submission may have at most {MAX_BYTES:,} bytes, got {len(text):,}")
    return write_atomic(path, text)


def source(name: str) -> str:
    """Return the text of the submission."""
    if not isinstance(name, str):
        raise TypeError(
            f"export takes the name of a player, such as 'network:runs/mine:200', got a {type(name).__name__}; "
            "of networks, only a BoardNet that regard.models.save has written can be exported"
        )
    player(name)  # raises the error message for unknown names
    if name.endswith(AGENT_FILES):
        raise ValueError(f"{name!r} cannot be exported; only these kinds of players can: {', '.join(KINDS)}")
    parsed = parse_name(name)
    kind = KINDS[parsed.kind]
    texts = {module: _embedded(module) for module in needed([SUBMISSION, *kind.modules])}
    files = {"book": _book, "network": _network}[kind.data](parsed.source) if kind.data else {}
    name = f"{parsed.kind}:{parsed.amount}" if parsed.amount else parsed.kind  # the file contains its network
    digest = hashlib.sha256("".join([name, *texts.values(), *files]).encode()).hexdigest()[:8]
    parts = [f"SOURCES[{m!r}] = r'''{text.replace('regard.', f'regard_{digest}.')}'''\n" for m, text in texts.items()]
    parts += [f"FILES[{file!r}] = {base64.b85encode(content).decode()!r}\n" for file, content in files.items()]
    template = Template(TEMPLATE.read_text(encoding="utf-8"))
    return template.substitute(name=name, digest=digest, player=repr(name), modules="\n".join(parts))


def needed(modules: list[str]) -> list[str]:
    """Return these modules of regard and all modules they import at the top level, dependencies first.

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


def _book(source: str) -> dict[str, bytes]:
    """Return the opening book of the solver, which is compressed already."""
    book = REGARD / "connectx" / "books" / "6x7x4.book"
    return {"book": book.read_bytes()} if book.is_file() else {}


def _network(source: str) -> dict[str, bytes]:
    """Return the network of this source, with its norms folded into the convolutions, in half precision."""
    from dataclasses import asdict

    from regard.connectx.kaggle.numpy_network import pack_network
    from regard.connectx.players.network_player import SHIPPED, load_network

    net = load_network(source or SHIPPED).for_inference()
    return {"network": pack_network(asdict(net.config), {k: v.numpy() for k, v in net.state_dict().items()})}


def _archive(text: bytes) -> bytes:
    """Return a .tar.gz with the text as main.py; equal texts give equal bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as zipped, tarfile.open(fileobj=zipped, mode="w") as tar:
        entry = tarfile.TarInfo("main.py")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    return buffer.getvalue()
