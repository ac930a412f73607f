"""Collectors, evaluator, learner, replay and data sets: they move data between environments and a policy."""

from ding_lite.worker.collector import Player, SampleCollector
from ding_lite.worker.episode_collector import EpisodeCollector
from ding_lite.worker.evaluator import Evaluator
from ding_lite.worker.learner import Learner
from ding_lite.worker.offline.dataset import OfflineDataset, read_dataset
from ding_lite.worker.offline.files import DatasetError
from ding_lite.worker.offline.loader import LoaderError, OfflineLoader
from ding_lite.worker.replay.buffer import (
    ReplayBuffer,
    SequenceReplayBuffer,
    TransitionView,
    UniformReplayBuffer,
    UniformSampler,
    create_ring_and_view,
)
from ding_lite.worker.replay.prioritized import PrioritizedReplayBuffer, PrioritizedSampler, SumTree
from ding_lite.worker.replay.ring import Ring
from ding_lite.worker.replay.sequence import SequenceView

__all__ = [
    "DatasetError",
    "EpisodeCollector",
    "Evaluator",
    "Learner",
    "LoaderError",
    "OfflineDataset",
    "OfflineLoader",
    "Player",
    "PrioritizedReplayBuffer",
    "PrioritizedSampler",
    "ReplayBuffer",
    "Ring",
    "SampleCollector",
    "SequenceReplayBuffer",
    "SequenceView",
    "SumTree",
    "TransitionView",
    "UniformReplayBuffer",
    "UniformSampler",
    "create_ring_and_view",
    "read_dataset",
]
