"""ding_lite: config-driven reinforcement learning, on one process or many."""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ding_lite.launch.training import train as train
    from ding_lite.trained.agent import load as load
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
    __all__ += ["__version__"]
