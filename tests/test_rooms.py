"""The rooms of the house: who may import whom, and by which door.

import-linter (`make check`) keeps the order of the rooms. This is the narrower table of the design, which
layers cannot say: a room may import the rooms in its row, and of those only what their `__init__` offers.
"""

import ast
from pathlib import Path

import grimp
import pytest

import regard

ALL = ["attention", "watch", "cost", "models", "training", "connectx", "pictures", "learn", "claims", "lab"]

MAY_IMPORT = {
    "attention": [],
    "watch": ["attention"],
    "cost": ["attention"],
    "models": ["attention"],
    "training": ["models"],
    "connectx": ["attention", "models", "training"],
    "pictures": ["attention", "watch", "cost"],
    "learn": ["attention", "pictures"],
    "claims": ALL[:8],
    "lab": ALL[:9],
    "cli": ALL,
}

# Public names of regard that are rooms' own modules, given a shorter address.
DOORS = {"masks": "attention", "nn": "attention", "compat": "attention"}

SHARED = "files"  # no room: what every room may use

Import = tuple[str, str]


def imports() -> list[Import]:
    graph = grimp.build_graph("regard", cache_dir=None)
    return [(a, b) for a in graph.modules for b in graph.find_modules_directly_imported_by(a)]


def room(module: str) -> str | None:
    name = [*module.split("."), ""][1]
    return DOORS.get(name, name) or None


def offered(room: str) -> set[str]:
    """The modules that a room's `__init__` exports as modules."""
    stub = Path(regard.__file__).parent / room / "__init__.pyi"
    if not stub.exists():
        return set()
    nodes = ast.walk(ast.parse(stub.read_text(encoding="utf-8")))
    return {a.name for n in nodes if isinstance(n, ast.ImportFrom) and not n.module for a in n.names}


def trespasses(found: list[Import]) -> list[str]:
    wrong = []
    for importer, imported in found:
        a, b = room(importer), room(imported)
        if a in (None, "__main__", b) or b in (None, SHARED) or a not in MAY_IMPORT or importer.split(".")[1] in DOORS:
            continue
        if b not in MAY_IMPORT[a]:
            wrong.append(f"{importer} imports {imported}, but {a} may import only {MAY_IMPORT[a] or 'nothing'}")
        deep = imported.split(".")[2:]
        if imported.split(".")[1] not in DOORS and deep and deep[0] not in offered(b):
            wrong.append(f"{importer} imports {imported}, which regard/{b}/__init__.pyi does not offer")
    return wrong


def test_rooms_keep_to_their_table() -> None:
    assert trespasses(imports()) == []


def test_every_room_is_in_the_table() -> None:
    folder = Path(regard.__file__).parent
    rooms = {path.stem for path in folder.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert rooms - {"__init__", "__main__", "__pycache__"} - set(DOORS) - {SHARED} <= set(MAY_IMPORT)


@pytest.mark.parametrize(
    ("importer", "imported", "complaint"),
    [
        ("regard.watch.hooks", "regard.cost", "watch may import only ['attention']"),
        ("regard.attention.fused", "regard.watch", "attention may import only nothing"),
        ("regard.training.loop", "regard.attention", "training may import only ['models']"),
        ("regard.learn.cards", "regard.watch", "learn may import only ['attention', 'pictures']"),
        ("regard.cli", "regard.attention.steps", "regard/attention/__init__.pyi does not offer"),
    ],
)
def test_a_trespass_is_seen(importer: str, imported: str, complaint: str) -> None:
    assert complaint in trespasses([(importer, imported)])[0]


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("regard.cli", "regard.attention"),
        ("regard.models.encoder", "regard.nn"),
        ("regard.pictures.heatmap", "regard.attention.reference"),
        ("regard.attention.steps", "regard.attention.record"),
        ("regard.masks", "regard.attention.masks"),
    ],
)
def test_what_is_allowed_is_not_complained_of(importer: str, imported: str) -> None:
    assert trespasses([(importer, imported)]) == []
