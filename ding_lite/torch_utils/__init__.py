"""What models, policies and workers share beside networks: running statistics, minibatches, checks of several ranks."""

from ding_lite.torch_utils.drift import RankDriftError
from ding_lite.torch_utils.minibatch import minibatches, normalize_parts, rank_sizes
from ding_lite.torch_utils.nonfinite import NonFiniteError
from ding_lite.torch_utils.running_stat import RunningMeanStd, joined_moments, merge_moments

__all__ = [
    "NonFiniteError",
    "RankDriftError",
    "RunningMeanStd",
    "joined_moments",
    "merge_moments",
    "minibatches",
    "normalize_parts",
    "rank_sizes",
]
