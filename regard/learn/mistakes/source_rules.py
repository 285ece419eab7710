"""What a source text uses, with names resolved through imports and aliases; checks of what a statement forbids."""

import ast
from dataclasses import dataclass, field

ARRAY_LIBRARIES = ("torch", "jax", "tensorflow", "cupy", "scipy", "sklearn", "mlx", "tinygrad", "autograd", "keras")


@dataclass(frozen=True)
class Use:
    """A name that a source uses, such as torch.nn.functional.linear, and the line where it does."""

    name: str
    line: int


@dataclass
class _Names(ast.NodeVisitor):
    """Collects the full names of what is imported, assigned and used."""

    known: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    own: set[str] = field(default_factory=set)
    uses: list[Use] = field(default_factory=list)
    calls: list[Use] = field(default_factory=list)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self.known[alias.asname or alias.name.partition(".")[0]] = (
                alias.name if alias.asname else alias.name.partition(".")[0]
            )
            self.uses.append(Use(alias.name, node.lineno))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        for alias in node.names:
            if alias.name == "*":
                self.stars.append(module)
            else:
                self.known[alias.asname or alias.name] = f"{module}.{alias.name}"
            self.uses.append(Use(f"{module}.{alias.name}", node.lineno))

    def visit_Assign(self, node: ast.Assign) -> None:
        self.generic_visit(node)
        full = self.full_name(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if full:
                    self.known[target.id] = full
                else:
                    self.known.pop(target.id, None)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._define(node.name)
        self.generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._define(node.name)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._use(node)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._use(node)

    def visit_Call(self, node: ast.Call) -> None:
        self._use(node)
        full = self.full_name(node.func)
        if full:
            self.calls.append(Use(full, node.lineno))
        for argument in node.args:  # functools.partial(einops.rearrange, …) calls its argument later
            passed = self.full_name(argument)
            if passed:
                self.calls.append(Use(passed, node.lineno))
        self.generic_visit(node)

    def full_name(self, node: ast.expr) -> str | None:
        """Return the full name that an expression stands for; None if it is not a name."""
        if isinstance(node, ast.Name):
            if node.id in self.known:
                return self.known[node.id]
            return f"{self.stars[-1]}.{node.id}" if self.stars and node.id not in self.own else None
        if isinstance(node, ast.Attribute):
            base = self.full_name(node.value)
            return f"{base}.{node.attr}" if base else None
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[-1], ast.Constant):
            text = node.args[-1].value
            function = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if function in ("import_module", "__import__") and isinstance(text, str):
                return text
            if function == "getattr" and len(node.args) == 2 and isinstance(text, str):
                base = self.full_name(node.args[0])
                return f"{base}.{text}" if base else None
        return None

    def _define(self, name: str) -> None:
        self.known.pop(name, None)
        self.own.add(name)

    def _use(self, node: ast.expr) -> None:
        full = self.full_name(node)
        if full:
            self.uses.append(Use(full, node.lineno))


def _names(source: str) -> _Names:
    names = _Names()
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return names
    # Functions are called after the whole file ran, so names defined anywhere at its top level count.
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.own.add(node.name)
    names.visit(tree)
    return names


def find_forbidden(source: str, forbidden: tuple[str, ...]) -> Use | None:
    """Return the first use of a forbidden name: "torch.*.linear" forbids linear in torch and in every module below it.

    >>> find_forbidden("from torch.nn import functional as f\\nf.linear(1, 2)", ("torch.*.linear",))
    Use(name='torch.nn.functional.linear', line=2)
    """
    rules = [rule.split(".*.") for rule in forbidden]
    for use in _names(source).uses:
        if any(use.name.split(".")[0] == package and use.name.split(".")[-1] == name for package, name in rules):
            return use
    return None


def find_other_library(source: str) -> Use | None:
    """Return the first use of an array library other than NumPy.

    >>> find_other_library("import numpy as np\\nimport torch")
    Use(name='torch', line=2)
    """
    return next((use for use in _names(source).uses if use.name.partition(".")[0] in ARRAY_LIBRARIES), None)


def calls_any(source: str, names: tuple[str, ...]) -> bool:
    """Return whether the source calls a function of a library with one of these last names, under whatever alias.

    >>> calls_any("from torch import einsum as e\\ne('i,i', x, x)", ("einsum",))
    True
    """
    return any(call.name.split(".")[-1] in names for call in _names(source).calls)
