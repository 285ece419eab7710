"""Pages of the documentation site that are generated: the API, the command line, and the repository's own documents.

mkdocs calls the functions `on_…`. The API pages have one section for each name in the `__init__.pyi` of a
package; mkdocstrings fills it with the docstring. The page of commands is the help of each command. Changelog,
architecture and contributing are the files in the repository's top folder.
"""

import ast
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Link, Navigation
from mkdocs.structure.pages import Page

from regard.cli import app

ROOT = Path(__file__).parents[2]
DOCUMENTS = {"changelog.md": "CHANGELOG.md", "architecture.md": "ARCHITECTURE.md", "contributing.md": "CONTRIBUTING.md"}
# packages in the order of a reader's interest, each with a page of its own
PACKAGES = (
    "regard", "regard.masks", "regard.nn", "regard.compat", "regard.watching", "regard.interventions",
    "regard.huggingface", "regard.attention", "regard.costs", "regard.models", "regard.training", "regard.connectx",
    "regard.pictures", "regard.learn", "regard.claims", "regard.lab",
    "regard.parallel",
)  # fmt: skip


def public_names(package: str) -> Iterator[tuple[str, str]]:
    """Yield the public names of a package, each with the module that defines it.

    >>> dict(public_names("regard.nn"))["Rotary"]
    'regard.attention.positions.rotary.Rotary'
    """
    module = importlib.import_module(package)
    stub = Path(str(module.__file__)).with_suffix(".pyi")
    if stub.exists():
        lines = [node for node in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(node, ast.ImportFrom)]
        names = {alias.name: f"{package}.{node.module}" for node in lines for alias in node.names}
    else:
        names = dict.fromkeys(sorted(module.__all__), package)
    for name, origin in names.items():
        value = getattr(module, name)
        if not inspect.ismodule(value):
            home = value if inspect.isclass(value) or inspect.isroutine(value) else None
            yield name, f"{home.__module__}.{home.__qualname__}" if home else f"{origin}.{name}"


def api_page(package: str) -> str:
    """Return the Markdown of a package's page: its docstring, and a section for each public name."""
    introduction = inspect.getdoc(importlib.import_module(package)) or ""
    parts = [f"# {package}", "", literal_code(introduction), ""]
    for name, target in public_names(package):
        parts += [f"[](){{ #{package}.{name} }}", "", f"::: {target}", "    options:", f"      heading: {name}", ""]
    return "\n".join(parts)


def literal_code(text: str) -> str:
    """Return a docstring as Markdown: examples in code blocks."""
    return re.sub(r"^(>>> .*(?:\n(?!\n).+)*)", r"```pycon\n\1\n```", text, flags=re.MULTILINE)


def reference_index() -> str:
    """Return the page that lists every public name with the first sentence of its docstring."""
    parts = ["# API", "", "Every public name of regard, with a link to its arguments, errors and an example.", ""]
    for package in PACKAGES:
        parts += [f"## [{package}]({package}.md)", "", "| name | |", "|---|---|"]
        for name, _ in public_names(package):
            value = getattr(importlib.import_module(package), name)
            summary = (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ") if callable(value) else ""
            summary = summary.replace("|", "\\|")
            parts.append(f"| [`{name}`]({package}.md#{package}.{name}) | {summary} |")
        parts.append("")
    return "\n".join(parts)


def commands(command: Any, path: str = "regard") -> Iterator[tuple[str, Any]]:
    """Yield a command of typer and its sub-commands, each with its full name."""
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        if not inner.hidden:
            yield from commands(inner, f"{path} {name}")


def option_rows(path: str, command: Any) -> Iterator[str]:
    """Yield a table row for each argument and option of a command, except --help."""
    for parameter in command.get_params(typer.Context(command, info_name=path)):
        if "--help" in parameter.opts:
            continue
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        if parameter.param_type_name == "argument":
            names = f"`{parameter.metavar or parameter.name.upper()}`"
        elif not parameter.is_flag and parameter.metavar:
            names += f" `{parameter.metavar}`"
        yield f"| {names} | {' '.join((parameter.help or '').split())} |"


def cli_page() -> str:
    """Return the Markdown of the command line: the help of every command."""
    parts = ["# Command line", "", "The help of each command. `regard COMMAND --help` prints the same.", ""]
    for path, command in commands(typer.main.get_command(app)):
        usage = " ".join(command.collect_usage_pieces(typer.Context(command, info_name=path)))
        rows = list(option_rows(path, command))
        parts += [f"{'#' * min(2 + path.count(' '), 4)} {path}", "", inspect.cleandoc(command.help or ""), ""]
        parts += ["```text", f"{path} {usage}", "```", ""]
        parts += ["| argument or option | |", "|---|---|", *rows, ""] if rows else []
    return "\n".join(parts)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site, and the files that its Chinese part shares with it."""
    worker = ".venv/npm/node_modules/iframe-worker/shim/index.js"
    shared = {"pictures/logo.svg": "regard/lab/static/icon.svg", "javascripts/iframe-worker.js": worker}
    if config.theme["language"] == "en":
        pages = {name: (ROOT / source).read_text(encoding="utf-8") for name, source in DOCUMENTS.items()}
        pages |= {"reference/index.md": reference_index(), "reference/cli.md": cli_page()}
        pages |= {f"reference/{package}.md": api_page(package) for package in PACKAGES}
        for name, content in pages.items():
            files.append(File.generated(config, name, content=content))
    else:
        shared["stylesheets/site.css"] = "docs/stylesheets/site.css"
    for name, source in shared.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / source)))
    return files


def on_nav(nav: Navigation, config: MkDocsConfig, files: Files) -> Navigation:
    """Add the link to the edition in the other language, which is a site of its own."""
    language = config.extra["other_language"]
    nav.items.append(Link(language["name"], language["link"]))
    return nav


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links to files of the repository that are not on the site to the repository."""
    source = DOCUMENTS.get(page.file.src_uri, f"docs/{page.file.src_uri}")
    on_site = {path: name for name, path in DOCUMENTS.items()} | {
        f"docs/{file.src_uri}": file.src_uri for file in files
    }

    def rewrite(match: re.Match[str]) -> str:
        link = match[1]
        target = (ROOT / source).parent.joinpath(link).resolve()
        if ":" in link or not target.is_relative_to(ROOT):
            return match[0]
        path = target.relative_to(ROOT).as_posix()
        if path in on_site:
            depth = page.file.src_uri.count("/")
            return f"]({'../' * depth}{on_site[path]}{match[2] or ''})"
        return f"]({config.extra['repository']}/blob/main/{path})" if target.exists() else match[0]

    return re.sub(r"\]\(([^)#\s]+)(#[^)]*)?\)", rewrite, markdown)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links of the Chinese part that begin with `en:` to the English part, one folder above it."""

    def rewrite(match: re.Match[str]) -> str:
        up = "../" * (page.file.src_uri.count("/") + 1)
        return f'{match[1]}="{up}{re.sub(r"[.]md(?=$|#)", ".html", match[2])}"'

    return re.sub(r'(href|src)="en:([^"]+)"', rewrite, html)
