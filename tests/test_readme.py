"""The documentation is true: its code runs, its links and paths exist, its commands exist."""

import doctest
import re
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
READMES = ("README.md", "README.zh-CN.md")
GUIDES = ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = (*GUIDES, *(f"docs/{file.name}" for file in sorted((ROOT / "docs").glob("*.md"))))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", [*READMES, "docs/game.md"])
def test_the_code_prints_what_it_says(name: str) -> None:
    code = "\n".join(blocks(name, "python"))
    test = doctest.DocTestParser().get_doctest(code, {}, name, name, 0)
    assert len(test.examples) >= 5
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.failures == 0


@pytest.mark.parametrize("name", [*READMES, *PAGES])
def test_links_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", read(name))
    assert "docs/pictures/trace.svg" in links or name not in READMES
    for link in links:
        assert (ROOT / name).parent.joinpath(link).exists(), link


@pytest.mark.parametrize("name", [*READMES, *PAGES, "regard/lab/README.md"])
def test_paths_exist(name: str) -> None:
    """Paths in backquotes that begin with a folder of the repository, and paths of packages in ARCHITECTURE.md."""
    folders = ["regard", "tests", "bench", "docs", ".github"]
    packages = [path.name for path in (ROOT / "regard").iterdir() if path.is_dir()] if name == "ARCHITECTURE.md" else []
    for path in re.findall(r"`([\w./-]+/[\w./*-]*)`", read(name)):
        top, path = path.split("/")[0], path.replace("NAME", "*")
        if top in folders:
            assert any(ROOT.glob(path.removesuffix("/"))), path
        elif top in packages:
            assert any((ROOT / "regard").glob(path.removesuffix("/"))), path


@pytest.mark.parametrize("name", READMES)
def test_the_commands_exist(name: str) -> None:
    targets = re.findall(r"^make (\w+)", "\n".join(blocks(name, "sh")), flags=re.MULTILINE)
    assert targets == ["lab", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", read("Makefile"), flags=re.MULTILINE)


def test_both_languages_show_the_same_code() -> None:
    def without_comments(name: str) -> list[str]:
        return [re.sub(r"\s*#.*", "", block, flags=re.MULTILINE) for block in blocks(name, "python")]

    assert without_comments("README.md") == without_comments("README.zh-CN.md")


def test_the_picture_is_what_the_script_draws() -> None:
    drawn = runpy.run_path(str(ROOT / "docs/pictures/trace.py"))["draw"]()
    assert drawn == read("docs/pictures/trace.svg")
    hosts = set(re.findall(r"https?://([^/\"]+)", drawn))
    assert hosts == {"www.w3.org"}  # the name of SVG itself; nothing is fetched


def test_every_dependency_has_its_reason() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    wanted = [
        *project["dependencies"],
        *(d for extra in project["optional-dependencies"].values() for d in extra),
    ]
    names = {re.split(r"[<>=~! ]", text)[0] for text in wanted}
    given = set(re.findall(r"^\| ([\w-]+) \|", read("docs/dependencies.md"), flags=re.MULTILINE)) - {"package"}
    assert given == names
