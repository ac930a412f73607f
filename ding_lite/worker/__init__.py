"""Collector, evaluator, learner and replay: what moves data between environments and a policy."""

from ding_lite.worker.collector import SampleCollector
from ding_lite.worker.episode_collector import EpisodeCollector
from ding_lite.worker.evaluator import Evaluator
from ding_lite.worker.learner import Learner
from ding_lite.worker.offline.dataset import OfflineDataset, read_dataset
from ding_lite.worker.offline.files import DatasetError
from ding_lite.worker.offline.loader import LoaderError, OfflineLoader
from ding_lite.worker.replay.prioritized import PrioritizedReplayBuffer, SumTree
from ding_lite.worker.replay.ring import UniformReplayBuffer
from ding_lite.worker.replay.sequence import SequenceReplayBuffer

__all__ = [
    "DatasetError",
    "EpisodeCollector",
    "Evaluator",
    "Learner",
    "LoaderError",
    "OfflineDataset",
    "OfflineLoader",
    "PrioritizedReplayBuffer",
    "SampleCollector",
    "SequenceReplayBuffer",
    "SumTree",
    "UniformReplayBuffer",
    "read_dataset",
]
