"""The order of the modules is the flow of data: a module imports only what comes before it."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import tangentbundle

ROOT = Path(tangentbundle.__file__).parent

ORDER = [
    "errors",
    "files",
    "arrays",
    "console",
    "jit",
    "parallel",
    "memory",
    "geometry",
    "manifolds",
    "operators",
    "sheaf",
    "diagnostics",
    "bundle",
    "filters",
    "datasets",
    "nn",
    "training",
    "saving",
    "estimators",
    "forecast",
    "io",
    "plot",
    "experiments",
    "report",
    "cli",
    "testing",
]
"""Modules and packages of the library. Those not named here come after all, and nothing named may import them."""


def is_type_checking(node) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)


def imports(source: str, depth: int):
    """Top-level names of the library that a module imports; ``depth`` packages lie between it and the root.

    Imports for type checkers are left out, imports inside functions are not.
    """
    pending = [ast.parse(source)]
    while pending:
        node = pending.pop()
        if is_type_checking(node):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.ImportFrom) and node.level == depth + 1:
            yield from [node.module.split(".")[0]] if node.module else [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module.split(".")[0] == "tangentbundle":
            path = node.module.split(".")[1:]
            yield from [path[0]] if path else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (n.split(".")[1] for n in (a.name for a in node.names) if n.startswith("tangentbundle."))


def library():
    """Each top-level module or package, with the top-level names it imports."""
    found: dict[str, set[str]] = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts == ("__init__",):
            continue
        found.setdefault(parts[0], set()).update(imports(path.read_text(), len(parts) - 1))
    return {name: uses - {name} for name, uses in found.items()}


LIBRARY = library()


def allowed(name, used, order=ORDER):
    if name not in order:
        return True
    return used in order and order.index(used) < order.index(name)


@pytest.mark.parametrize("name", LIBRARY)
def test_imports_only_what_comes_before(name):
    assert LIBRARY[name] <= set(LIBRARY), "imports of something that is no module"
    assert {used for used in LIBRARY[name] if not allowed(name, used)} == set()


def test_no_cycles():
    TopologicalSorter(LIBRARY).prepare()


def test_the_reader_of_imports_reads():
    source = """
from __future__ import annotations
import numpy, tangentbundle.geometry.graph
from typing import TYPE_CHECKING
from . import sibling
from ..errors import ShapeError
from .. import kernels, scale
from tangentbundle.geometry.frames import local_pca
if TYPE_CHECKING:
    from ..bundle import TangentBundle
def late():
    from ..filters.base import Filter
"""
    assert set(imports(source, 1)) == {"geometry", "errors", "kernels", "scale", "filters"}
    assert set(imports("from .graph import x\nfrom . import arrays", 0)) == {"graph", "arrays"}


def test_the_rule_can_fail():
    assert allowed("geometry", "errors") and not allowed("geometry", "bundle") and not allowed("geometry", "unknown")
    assert not allowed("errors", "errors") and allowed("unknown", "bundle")
    assert {"geometry", "operators", "bundle", "filters"} <= set(LIBRARY)
    assert "geometry" in LIBRARY["operators"] and "operators" in LIBRARY["bundle"]
