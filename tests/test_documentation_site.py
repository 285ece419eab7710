"""The documentation site can be built, its links lead somewhere, and every public name is in the reference."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORKER = ROOT / ".venv/npm/node_modules/iframe-worker"
needs_worker = pytest.mark.skipif(
    not WORKER.exists(), reason="IFRAME-WORKER IS MISSING, NO SITE IS BUILT: make browser"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for config, out in (("mkdocs.yml", folder), ("mkdocs.zh.yml", folder / "zh")):
        command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", config, "-d", str(out)]
        done = subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True)
        assert done.returncode == 0, done.stderr.decode()
    return folder


@needs_worker
def test_links_lead_somewhere_and_nothing_is_loaded_from_other_hosts(site: Path) -> None:
    check = runpy.run_path(str(ROOT / "docs/site/check_links.py"))["problems"]
    assert check(site) == []
    broken = site / "broken.html"
    broken.write_text('<a href="missing.html"></a><script src="https://host/x.js"></script>')
    assert check(site) == ["broken.html: loads https://host/x.js", "broken.html: missing.html does not exist"]
    broken.unlink()


@needs_worker
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    pages = runpy.run_path(str(ROOT / "docs/site/generated_pages.py"))
    for package in pages["PACKAGES"]:
        page = (site / f"reference/{package}.html").read_text(encoding="utf-8")
        for name, _ in pages["public_names"](package):
            assert f'id="{package}.{name}"' in page, f"{package}.{name}"
    assert 'id="regard-watch"' in (site / "reference/cli.html").read_text()


@needs_worker
def test_the_home_page_links_the_first_questions_of_a_newcomer(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    questions = {
        "see a model's attention": "guides/watch.html",
        "mask padding": "guides/masks.html#padding",
        "ablate a head": "interventions.html",
        "cost of a call": "guides/costs.html",
        "start the course": "start/learner.html",
    }
    assert [question for question, link in questions.items() if f'href="{link}"' not in page] == []
