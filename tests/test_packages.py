"""The structure of the package: who may import whom, no import cycles, small folders, documented packages.

import-linter (`make check`) keeps the order of the packages. `MAY_IMPORT` is narrower: the packages that each package
uses. Lazy imports inside functions and imports for type checkers count like all others.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest

import regard

FOLDER = Path(regard.__file__).parent
ALL = [
    "parallel",
    "attention",
    "watching",
    "costs",
    "models",
    "training",
    "connectx",
    "pictures",
    "learn",
    "claims",
    "lab",
]
MAY_IMPORT = {
    "parallel": [],
    "attention": [],
    "watching": ["attention"],
    "costs": ["attention"],
    "models": ["attention"],
    "huggingface": ["attention"],
    "training": ["watching", "models"],
    "connectx": ["parallel", "attention", "models", "training"],
    "pictures": ["attention", "watching", "costs"],
    "learn": ["attention", "pictures"],
    "claims": ALL[:9],
    "lab": ALL[:10],
    "cli": ALL,
    "pytest_plugin": [],
}
# short addresses of a package's modules
PUBLIC = {"masks": "attention", "nn": "attention", "compat": "attention", "interventions": "watching"}
SHARED = {
    "numba_functions",
    "cpu_count",
    "durations",
    "extras",
    "files",
    "languages",
    "suggestions",
    "torch_version",
}  # every package may use these
MOST_MODULES = 16  # in one folder
EXERCISES = FOLDER / "learn" / "exercises"  # what learners read and write

Import = tuple[str, str]


def imports() -> list[Import]:
    graph = grimp.build_graph("regard", cache_dir=None)
    return [(a, b) for a in graph.modules for b in graph.find_modules_directly_imported_by(a)]


def package_of(module: str) -> str | None:
    name = [*module.split("."), ""][1]
    return PUBLIC.get(name, name) or None


def forbidden(edges: list[Import]) -> list[str]:
    """Return a complaint for each import of a package that is not in the importer's row of the table."""
    complaints = []
    for importer, imported in edges:
        a, b = package_of(importer), package_of(imported)
        if a in (None, "__main__", b) or b is None or b in SHARED or importer.split(".")[1] in PUBLIC:
            continue
        if b not in MAY_IMPORT.get(str(a), []):
            complaints.append(
                f"{importer} imports {imported}, but {a} may import only {MAY_IMPORT.get(str(a)) or 'nothing'}"
            )
    return complaints


def cycles(edges: list[Import]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or not (Tarjan's algorithm)."""
    graph: dict[str, list[str]] = {}
    for a, b in edges:
        graph.setdefault(a, []).append(b)
        graph.setdefault(b, [])
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph[node]:
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                groups.append(sorted(stack[at:]))
            del stack[at:]

    for node in graph:
        if node not in index:
            visit(node)
    return groups


def folders() -> Iterator[tuple[Path, list[Path]]]:
    for folder in [FOLDER, *(path for path in FOLDER.rglob("*") if path.is_dir())]:
        modules = list(folder.glob("*.py"))
        if modules and not folder.is_relative_to(EXERCISES):
            yield folder, modules


def test_packages_import_only_what_the_table_allows() -> None:
    assert forbidden(imports()) == []


def test_every_package_is_in_the_table() -> None:
    names = {path.stem for path in FOLDER.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert names - {"__init__", "__main__", "__pycache__"} - set(PUBLIC) - SHARED == set(MAY_IMPORT)


def test_no_import_cycles() -> None:
    """A package's `__init__` is left out: it names what its modules define, and loads them when first used."""
    packages = {f"regard.{folder.relative_to(FOLDER)}".replace("/", ".") for folder, _ in folders()} | {
        "regard.",
        "regard",
    }
    assert cycles([(a, b) for a, b in imports() if b not in packages]) == []


def test_folders_are_small_enough_to_read() -> None:
    assert {str(folder): len(modules) for folder, modules in folders() if len(modules) > MOST_MODULES} == {}


def test_every_package_says_what_it_contains() -> None:
    for folder, _ in folders():
        assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))), folder


@pytest.mark.parametrize(
    ("importer", "imported", "complaint"),
    [
        ("regard.watching.watch_context", "regard.costs", "watching may import only ['attention']"),
        ("regard.attention.attend_function", "regard.watching", "attention may import only nothing"),
        ("regard.training.loop", "regard.attention", "training may import only ['watching', 'models']"),
        ("regard.learn.cards", "regard.watching", "learn may import only ['attention', 'pictures']"),
    ],
)
def test_a_forbidden_import_is_found(importer: str, imported: str, complaint: str) -> None:
    assert complaint in forbidden([(importer, imported)])[0]


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("regard.cli", "regard.attention"),
        ("regard.models.transformer.encoder", "regard.nn"),
        ("regard.pictures.weights.token_heatmaps", "regard.attention.reference"),
        ("regard.training.launch", "regard.files"),
        ("regard.masks", "regard.attention.masks"),
    ],
)
def test_an_allowed_import_passes(importer: str, imported: str) -> None:
    assert forbidden([(importer, imported)]) == []


def test_a_cycle_is_found() -> None:
    assert cycles([("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")]) == [["b", "c"]]


@pytest.mark.parametrize("init", sorted(FOLDER.rglob("__init__.py")), ids=lambda init: init.parent.name)
def test_package_docstrings_name_what_exists(init: Path) -> None:
    names = re.findall(r"`([a-z_][\w.]*)`", ast.get_docstring(ast.parse(init.read_text())) or "")
    sources = [file for file in init.parent.rglob("*.py*") if file != init and file.suffix in (".py", ".pyi")]
    known = {"regard", *(file.stem for file in sources), *(file.parent.name for file in sources)}
    known |= {word for file in sources for word in re.findall(r"\w+", file.read_text())}
    unknown = [name for name in names if not known.issuperset(name.removesuffix(".py").split("."))]
    assert not unknown, f"the docstring of {init} mentions {unknown}, which the package does not contain"
