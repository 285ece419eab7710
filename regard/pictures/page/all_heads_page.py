"""Assemble the attention page: weights, thumbnails and the program that shows them, in one HTML file."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from regard.files import write_atomic
from regard.pictures.colours import colour_table
from regard.pictures.inputs import check_names, to_float64
from regard.pictures.page.encoding import EXACT_UP_TO, Factors, encode, encode_text, weights_of
from regard.pictures.weights.layer_overview import thumbnail

Array = np.ndarray

THUMBNAIL = 40  # largest number of cells on one side
# The scripts are joined in this order.
FILES = ("page.html", "page.css", "numbers.js", "heatmap.js", "page.js", "report.js")


@dataclass(frozen=True)
class Page:
    """An attention page. Notebooks display it; `save("x.html")` writes it to a file.

    title       title of the page
    html        the page

    >>> attention_page([[[[1.0, 0.0], [0.5, 0.5]]]], title="One head")
    Page(title='One head')
    """

    title: str
    html: str = field(repr=False)

    def save(self, file: str | os.PathLike[str]) -> Path:
        """Write the page atomically and return its path."""
        path = Path(file)
        if path.suffix.lower() not in (".html", ".htm"):
            raise ValueError(f"a page is saved as .html, got {path.name!r}; layer_overview saves .png, .svg or .pdf")
        return write_atomic(path, self.html.encode())

    def _repr_html_(self) -> str:
        frame = escape(self.html, quote=True)
        style = "width: 100%; height: 48rem; border: 0"
        return f'<iframe title="{escape(self.title, quote=True)}" style="{style}" srcdoc="{frame}"></iframe>'


Names = Sequence[str] | Sequence[Sequence[str] | None] | None


def attention_page(
    layers: Sequence[Any],
    tokens: Names = None,
    key_tokens: Names = None,
    *,
    names: Sequence[str] | None = None,
    title: str = "Attention",
) -> Page:
    """Return a page with every head of every layer: an overview, zoom and pan, and the value of every pair.

    layers      for each layer its weights (H, L, S), or `Factors`, the queries and keys they are computed from
    tokens      names of the queries: one list for all layers, or one list per layer; also used for the keys
    key_tokens  names of the keys, if they differ from those of the queries
    names       names of the layers
    title       title of the page

    Pages of at most two million weights store them as 32-bit floats. Larger pages show three significant digits of each
    weight (as computed in float64), all of them correct. 12 layers × 12 heads × 512 tokens (d_k = 64) take 22 MB from
    `Factors` and 65 MB, 1.7 bytes per weight, from weights. The page works offline and needs no other file.

    >>> from tempfile import TemporaryDirectory
    >>> page = attention_page(np.full((2, 4, 3, 3), 1 / 3), ["The", "cat", "sat"])
    >>> with TemporaryDirectory() as folder:
    ...     page.save(f"{folder}/attention.html").name
    'attention.html'
    """
    return build_page(layers, tokens, key_tokens, names=names, title=title)


def build_page(
    layers: Sequence[Any],
    tokens: Names,
    key_tokens: Names,
    *,
    names: Sequence[str] | None,
    title: str,
    report: dict[str, Any] | None = None,
) -> Page:
    """Return the page of `attention_page`, for recordings with a report.

    The layers of a recording are those of the first run, for each of its batch items, then those of the second run.

    report      items: numbers of the batch items; of: how many there are; statistics: of each head, in the order of the
                layers; runs: findings, checks and remarks of each run (`regard.pictures.weights.recorded_heads`)
    """
    sources = [layer if isinstance(layer, Factors) else to_float64(layer) for layer in layers]
    shapes = [layer.shape for layer in sources]
    if not sources or any(len(shape) != 3 or 0 in shape for shape in shapes):
        raise ValueError(f"layers must hold weights (H, L, S) or Factors, got shapes {shapes}")
    layer_names = [f"layer {i}" for i in range(len(sources))] if names is None else [str(n) for n in names]
    if len(layer_names) != len(sources):
        raise ValueError(
            f"names must hold one name for each layer, got {len(layer_names)} names for {len(sources)} layers"
        )
    lists: dict[tuple[str, ...], int] = {}  # index of each distinct list of names, which is stored once
    layer_facts = []
    names_of_queries, names_of_keys = _for_each("tokens", tokens, shapes), _for_each("key_tokens", key_tokens, shapes)
    for layer_name, shape, own, own_keys in zip(layer_names, shapes, names_of_queries, names_of_keys, strict=True):
        queries, keys = _token_names(own, own_keys, shape[1], shape[2])
        indices = {"queries": lists.setdefault(queries, len(lists)), "keys": lists.setdefault(keys, len(lists))}
        layer_facts.append({"name": layer_name, **indices})

    total = sum(shape[0] * shape[1] * shape[2] for shape in shapes)
    masks: dict[bytes, int] = {}
    heads: list[dict[str, Any]] = []
    blocks: list[str] = []
    thumbnails: list[bytes] = []
    for i, layer in enumerate(sources):
        for h in range(shapes[i][0]):
            weights = weights_of(layer, h)
            finite = np.isfinite(weights)
            # A recording with NaN is shown, since its page says what is wrong. Three digits cannot store NaN.
            if not finite.all() and (report is None or total > EXACT_UP_TO):
                query, key = (int(n) for n in np.argwhere(~finite)[0])
                where = f"{layer_names[i]}, head {h}, query {query}, key {key}"
                raise ValueError(
                    f"weights must be finite, got {weights[query, key]} at {where}; weight_heatmap can draw it"
                )
            facts, content = encode(layer, h, weights, total)
            if facts["way"] == "factors" and isinstance(layer, Factors):
                visible = layer.head(h)[2]
                facts["mask"] = -1
                if visible is not None and not visible.all():
                    bits = np.packbits(visible.reshape(-1), bitorder="little").tobytes()
                    facts["mask"] = masks.setdefault(bits, len(masks))
            small = thumbnail(np.where(finite, weights, 0), THUMBNAIL)
            thumbnails.append(np.round(255 * np.sqrt(small / (small.max() or 1))).astype(np.uint8).tobytes())
            heads.append({"layer": i, "head": h, "thumbnail": small.shape, **facts})
            blocks.append(block(f"head-{len(heads) - 1}", content))
    blocks += [block(f"mask-{i}", [bits]) for bits, i in masks.items()]
    blocks.append(block("thumbnails", [b"".join(thumbnails)]))
    colours = {theme: colour_table(theme).reshape(-1).tolist() for theme in ("light", "dark")}
    page_facts = {
        "title": title, "tokens": list(lists), "layers": layer_facts, "heads": heads, "colours": colours,
        "report": report,
    }  # fmt: skip
    return Page(title, _assemble(title, page_facts, blocks))


def _for_each(what: str, names: Names, shapes: list[tuple[int, ...]]) -> list[Sequence[str] | None]:
    """Return the names for each layer, from one list for all layers or one list per layer."""
    if names is None or all(isinstance(name, str) for name in names):
        return [names] * len(shapes)  # type: ignore[list-item]
    if len(names) != len(shapes):
        raise ValueError(f"{what} must contain one list of names for each of {len(shapes)} layers, got {len(names)}")
    return list(names)


def _token_names(
    tokens: Sequence[str] | None, key_tokens: Sequence[str] | None, queries: int, keys: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of one layer's queries and keys; the default names are numbers."""
    if key_tokens is None and tokens is not None and queries == keys:
        key_tokens = tokens
    query_names = tuple(map(str, range(queries) if tokens is None else tokens))
    key_names = tuple(map(str, range(keys) if key_tokens is None else key_tokens))
    check_names("tokens", query_names, queries, "query")
    check_names("key_tokens", key_names, keys, "key")
    return query_names, key_names


def block(name: str, content: list[bytes]) -> str:
    """Return bytes as an HTML script element; the page decodes them when it needs them."""
    text, size = encode_text(content)
    return f'<script type="text/plain" id="{name}" data-size="{size}">{text}</script>'


def _assemble(title: str, facts: dict[str, Any], blocks: list[str]) -> str:
    folder = files("regard.pictures.page")
    html, css, *scripts = ((folder / name).read_text(encoding="utf-8") for name in FILES)
    program = re.sub(r"^export ", "", "\n".join(scripts), flags=re.MULTILINE)  # joined into one script without modules
    # `<` could open or close an element inside a script; JSON can write it as an escape.
    data = json.dumps(facts, ensure_ascii=False).replace("<", "\\u003c")
    # A lone surrogate cannot be encoded as UTF-8.
    data = data.encode("utf-8", "backslashreplace").decode()
    return Template(html).substitute(
        title=escape(title), style=css, facts=data, blocks="\n".join(blocks), program=program
    )
