"""Learning with vector fields on curved spaces.

The order of the modules is the flow of data: points, ``graph``, ``frames``, ``transport``, ``operators``, ``bundle``,
``filters``, ``nn``. ``manifolds`` holds exact spaces to test against.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .api import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Modules and names come when first asked for: ``import tangentbundle`` alone does not wait for torch."""
    if not name.isidentifier() or (name.startswith("__") and name != "__all__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec(f"{__name__}.{name}") is not None:
        return import_module(f".{name}", __name__)
    return getattr(import_module(".api", __name__), name)


def __dir__() -> list[str]:
    return [*globals(), *import_module(".api", __name__).__all__]
