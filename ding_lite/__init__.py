"""ding_lite: config-driven reinforcement learning, on one process or many.

`load` is imported on first use, because it imports torch, which worker processes of environments do without.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ding_lite.entry.agent import load

__version__ = "0.1.0"
__all__ = ["__version__", "load"]


def __getattr__(name: str) -> Any:
    if name != "load":
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    from ding_lite.entry.agent import load  # noqa: PLC0415  (it imports torch, see above)

    return load
