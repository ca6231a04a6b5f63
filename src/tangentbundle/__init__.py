"""Learning with vector fields on curved spaces.

The order of the packages is the flow of data: ``geometry``, ``operators``, ``bundle``, ``filters``,
``nn``, ``estimators``. ``manifolds`` holds exact spaces to test against.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .parallel import passive_waiting, sleep_while_waiting

if TYPE_CHECKING:
    from .api import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Modules and names, when first asked for."""
    if not name.isidentifier() or (name.startswith("__") and name != "__all__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if find_spec(f"{__name__}.{name}") is not None:
        return import_module(f".{name}", __name__)
    api = import_module(".api", __name__)
    if name == "__all__" or name in api.__all__:
        return getattr(api, name)
    from difflib import get_close_matches

    lower = {public.lower(): public for public in reversed(__dir__())}
    near = [
        *(key for key in lower if name.lower() in key),
        *get_close_matches(name.lower(), lower, 1),
    ]
    advice = f" Did you mean {lower[near[0]]!r}?" if near else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}.{advice}")


def __dir__() -> list[str]:
    """The public names and modules, for completion."""
    api = import_module(".api", __name__)
    return sorted([*api.__all__, *api.MODULES])


# the command, `tangentbundle` or `python -m tangentbundle`, loads what it needs when it needs it
if "tangentbundle_cli" in sys.modules or sys.argv[:1] == ["-m"]:
    sleep_while_waiting()
else:
    with passive_waiting():
        import_module(".api", __name__)
