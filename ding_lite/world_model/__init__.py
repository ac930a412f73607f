"""A room: world models learn what an environment does, and policies learn from what they imagine."""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.world_model.base import WorldModel as WorldModel
    from ding_lite.world_model.ddppo import DDPPOWorldModel as DDPPOWorldModel
    from ding_lite.world_model.mbpo import MBPOWorldModel as MBPOWorldModel
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
