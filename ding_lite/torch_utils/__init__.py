"""Tools for models, policies and workers: optimizer step, target networks, statistics, minibatches, rank checks."""

from ding_lite.torch_utils.minibatch import minibatches, normalize_parts, rank_sizes
from ding_lite.torch_utils.networks import RankDriftError
from ding_lite.torch_utils.nonfinite import NonFiniteError
from ding_lite.torch_utils.optimizer import Trained
from ding_lite.torch_utils.optimizer_step import OptimizerStep
from ding_lite.torch_utils.running_stat import RunningMeanStd, joined_moments, merge_moments
from ding_lite.torch_utils.target_network import TargetNetwork

__all__ = [
    "NonFiniteError",
    "OptimizerStep",
    "RankDriftError",
    "RunningMeanStd",
    "TargetNetwork",
    "Trained",
    "joined_moments",
    "merge_moments",
    "minibatches",
    "normalize_parts",
    "rank_sizes",
]
