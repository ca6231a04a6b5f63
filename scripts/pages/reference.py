"""The API reference: a page for each public module, with an entry for each of its public names."""

from __future__ import annotations

import inspect
from importlib import import_module
from types import ModuleType

from docstrings import markdown
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PACKAGE = "tangentbundle"
MODULES = (
    "manifolds",
    "geometry.kernels",
    "meshes",
    "operators",
    "calculus",
    "geodesics",
    "directions",
    "spaces",
    "filters",
    "nn",
    "training",
    "estimators",
    "forecast",
    "earth",
    "earth.covariances",
    "datasets",
    "io",
    "plot",
    "results",
    "report",
    "interop",
    "distributed",
    "testing",
    "errors",
)
"""In the order of the flow of data."""


HOMES = ("calculus", "filters", "training", "estimators", "forecast", "operators")
"""Where names are documented that the package itself offers, too."""

ONLY_DOCSTRING = """    options:
      members: false
      show_root_heading: false
      show_root_toc_entry: false
"""


def public_modules() -> dict[str, ModuleType]:
    """The package and its public modules, by their short names ('' is the package itself)."""
    found = {"": import_module(PACKAGE)}
    return found | {name: import_module(f"{PACKAGE}.{name}") for name in MODULES}


def public_names(module: ModuleType) -> list[str]:
    """What a module offers: its ``__all__``, or the classes and functions it defines."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
    return [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_")
        and getattr(thing, "__module__", None) == module.__name__
        and callable(thing)
    ]


def page(module: ModuleType, elsewhere: dict[str, str]) -> str:
    """A page of Markdown; names already on another page are linked."""
    here = [name for name in public_names(module) if name not in elsewhere]
    there = [name for name in public_names(module) if name in elsewhere]
    lines = [f"# {module.__name__}", "", f"::: {module.__name__}", ONLY_DOCSTRING]
    if there:
        links = ", ".join(
            f"[`{name}`]({elsewhere[name]}.md#{PACKAGE}.{elsewhere[name]}.{name})" for name in there
        )
        lines += [f"Also here, for short: {links}.", ""]
    return "\n".join([*lines, *(f"::: {module.__name__}.{name}\n" for name in here)])


def summary(module: ModuleType) -> str:
    """The first paragraph of a module's docstring."""
    return markdown((inspect.getdoc(module) or "").split("\n\n")[0].replace("\n", " "))


def on_files(files: Files, config: MkDocsConfig) -> Files:
    modules = public_modules()
    elsewhere = {name: short for short in HOMES for name in public_names(modules[short])}
    nav: list = ["reference/index.md", {"Conventions": "conventions.md"}]
    rows = [
        "# Reference",
        "",
        "Every public name, from its docstring. The order is the flow of data.",
        "",
    ]
    for short, module in modules.items():
        path = f"reference/{short or PACKAGE}.md"
        files.append(File.generated(config, path, content=page(module, {} if short else elsewhere)))
        nav.append({module.__name__: path})
        names = ", ".join(
            f"`{name}`" for name in public_names(module) if short or name not in elsewhere
        )
        rows += [
            f"## [{module.__name__}]({short or PACKAGE}.md)",
            "",
            summary(module),
            "",
            names,
            "",
        ]
    files.append(File.generated(config, "reference/index.md", content="\n".join(rows)))
    config.nav = [
        {"Reference": nav} if item == {"Reference": "reference/"} else item
        for item in config.nav or []
    ]
    return files
