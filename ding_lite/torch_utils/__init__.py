"""Tools for models, policies and workers: optimizer step, target networks, statistics, minibatches, rank checks."""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.torch_utils.minibatch import minibatches as minibatches
    from ding_lite.torch_utils.minibatch import normalize_parts as normalize_parts
    from ding_lite.torch_utils.minibatch import rank_sizes as rank_sizes
    from ding_lite.torch_utils.networks import RankDriftError as RankDriftError
    from ding_lite.torch_utils.nonfinite import NonFiniteError as NonFiniteError
    from ding_lite.torch_utils.optimizer import Trained as Trained
    from ding_lite.torch_utils.optimizer_step import OptimizerStep as OptimizerStep
    from ding_lite.torch_utils.running_stat import RunningMeanStd as RunningMeanStd
    from ding_lite.torch_utils.running_stat import joined_moments as joined_moments
    from ding_lite.torch_utils.running_stat import merge_moments as merge_moments
    from ding_lite.torch_utils.target_network import TargetNetwork as TargetNetwork
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
