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
PAGES = (*GUIDES, *(str(file.relative_to(ROOT)) for file in sorted((ROOT / "docs").rglob("*.md"))))
GENERATED = (
    r"(^|/)(reference/(regard|cli|index)|regard|changelog|architecture|contributing)[\w.]*\.md$"  # pages of the site
)


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), flags=re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in (*READMES, *PAGES) if "\n>>> " in read(name)])
def test_the_code_prints_what_it_says(name: str) -> None:
    code = "\n".join(blocks(name, "python"))
    test = doctest.DocTestParser().get_doctest(code, {}, name, name, 0)
    assert len(test.examples) >= 2
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test)
    assert runner.failures == 0


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", read(name)):
        folder = ROOT / "docs" if link.startswith("en:") else (ROOT / name).parent
        link = link.removeprefix("en:")
        assert folder.joinpath(link).exists() or re.search(GENERATED, link), link


@pytest.mark.parametrize("name", READMES)
def test_links_of_the_readme_are_absolute_and_lead_somewhere(name: str) -> None:
    """A package index shows the README without the files beside it."""
    repository = tomllib.loads(read("pyproject.toml"))["project"]["urls"]["Source"]
    pages, pictures = (
        f"{repository}/blob/main/",
        repository.replace("github.com", "raw.githubusercontent.com") + "/main/",
    )
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)#]+)\)", read(name))
    links += [("!" if key == "src" else "", link) for key, link in re.findall(r'(src|href)="([^"#]+)', read(name))]
    assert ("!", f"{pictures}docs/pictures/home.svg") in links
    for picture, link in links:
        start = pictures if picture else pages
        assert link.startswith(start), link
        assert (ROOT / link.removeprefix(start)).exists(), link


def test_one_address_of_the_repository() -> None:
    urls = tomllib.loads(read("pyproject.toml"))["project"]["urls"]
    assert f"repository-code: {urls['Source']}\n" in read("CITATION.cff")
    assert all(url.startswith(urls["Source"]) for url in urls.values())


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
    names = {re.split(r"[<>=~! \[]", text)[0] for text in wanted if not text.startswith("regard[")}
    given = set(re.findall(r"^\| ([\w-]+) \|", read("docs/dependencies.md"), flags=re.MULTILINE)) - {"package"}
    assert given == names
