"""Collectors, evaluator, learner, replay and data sets: they move data between environments and a policy."""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.goals.her import HindsightReplayBuffer as HindsightReplayBuffer
    from ding_lite.offline.dataset import OfflineDataset as OfflineDataset
    from ding_lite.offline.dataset import read_dataset as read_dataset
    from ding_lite.offline.files import DatasetError as DatasetError
    from ding_lite.offline.loader import LoaderError as LoaderError
    from ding_lite.offline.loader import OfflineLoader as OfflineLoader
    from ding_lite.offline.sqil import SQILReplayBuffer as SQILReplayBuffer
    from ding_lite.worker.collector import Player as Player
    from ding_lite.worker.collector import SampleCollector as SampleCollector
    from ding_lite.worker.episode_collector import EpisodeCollector as EpisodeCollector
    from ding_lite.worker.evaluator import Evaluator as Evaluator
    from ding_lite.worker.learner import Learner as Learner
    from ding_lite.worker.replay.buffer import ReplayBuffer as ReplayBuffer
    from ding_lite.worker.replay.buffer import SequenceReplayBuffer as SequenceReplayBuffer
    from ding_lite.worker.replay.buffer import TransitionView as TransitionView
    from ding_lite.worker.replay.buffer import UniformReplayBuffer as UniformReplayBuffer
    from ding_lite.worker.replay.buffer import UniformSampler as UniformSampler
    from ding_lite.worker.replay.buffer import create_ring_and_view as create_ring_and_view
    from ding_lite.worker.replay.prioritized import PrioritizedReplayBuffer as PrioritizedReplayBuffer
    from ding_lite.worker.replay.prioritized import PrioritizedSampler as PrioritizedSampler
    from ding_lite.worker.replay.prioritized import SumTree as SumTree
    from ding_lite.worker.replay.ring import Ring as Ring
    from ding_lite.worker.replay.sequence import SequenceView as SequenceView
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
