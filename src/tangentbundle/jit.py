"""numba's ``njit`` where numba is installed; without it the library still imports, and says so when a kernel is
needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

try:
    from numba import njit
except ModuleNotFoundError:

    def njit(**options: Any) -> Callable:  # type: ignore[no-redef]
        """Stand-in decorator: the function refuses to run."""

        def decorate(function: Callable) -> Callable:
            def refuse(*args: Any, **kwargs: Any) -> None:
                raise ModuleNotFoundError(
                    f"{function.__name__} is a compiled kernel and needs numba: pip install numba", name="numba"
                )

            return refuse

        return decorate


__all__ = ["njit"]
