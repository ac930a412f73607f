"""Reward models, which change or add rewards between collecting and storing."""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.reward_model.base import RewardModel as RewardModel
    from ding_lite.reward_model.episodic import NguRewardModel as NguRewardModel
    from ding_lite.reward_model.intrinsic import IcmRewardModel as IcmRewardModel
    from ding_lite.reward_model.intrinsic import RndRewardModel as RndRewardModel
    from ding_lite.torch_utils.minibatch import next_obs as next_obs
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
