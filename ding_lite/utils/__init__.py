"""Tools that every other package may use: registries, keys, trees, seeds, logging, process group, checkpoint files.

Names are imported on first use, so that environment worker processes, which need only the registry, never load torch.
A mistake of the user raises `UserError` or a subclass of it, whose message is one line that says what to do.
"""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.utils.checkpoint.file import CheckpointError as CheckpointError
    from ding_lite.utils.checkpoint.file import load_checkpoint as load_checkpoint
    from ding_lite.utils.checkpoint.file import save_checkpoint as save_checkpoint
    from ding_lite.utils.checkpoint.run_directory import open_exp_dir as open_exp_dir
    from ding_lite.utils.checkpoint.store import CheckpointStore as CheckpointStore
    from ding_lite.utils.logger import ExperimentLogger as ExperimentLogger
    from ding_lite.utils.logger import Progress as Progress
    from ding_lite.utils.ranks.collectives import all_gather_object as all_gather_object
    from ding_lite.utils.ranks.collectives import allreduce_data as allreduce_data
    from ding_lite.utils.ranks.collectives import broadcast_module as broadcast_module
    from ding_lite.utils.ranks.collectives import broadcast_object_list as broadcast_object_list
    from ding_lite.utils.ranks.collectives import get_local_rank as get_local_rank
    from ding_lite.utils.ranks.collectives import get_rank as get_rank
    from ding_lite.utils.ranks.collectives import get_world_size as get_world_size
    from ding_lite.utils.ranks.collectives import to_ddp_config as to_ddp_config
    from ding_lite.utils.ranks.context import DDPContext as DDPContext
    from ding_lite.utils.ranks.flat_parameters import FlatParameters as FlatParameters
    from ding_lite.utils.ranks.heartbeat import heartbeat as heartbeat
    from ding_lite.utils.ranks.interrupt import InterruptGuard as InterruptGuard
    from ding_lite.utils.registry import BUFFER_REGISTRY as BUFFER_REGISTRY
    from ding_lite.utils.registry import ENCODER_REGISTRY as ENCODER_REGISTRY
    from ding_lite.utils.registry import ENV_REGISTRY as ENV_REGISTRY
    from ding_lite.utils.registry import MODEL_REGISTRY as MODEL_REGISTRY
    from ding_lite.utils.registry import POLICY_REGISTRY as POLICY_REGISTRY
    from ding_lite.utils.registry import REWARD_MODEL_REGISTRY as REWARD_MODEL_REGISTRY
    from ding_lite.utils.registry import TRACKER_REGISTRY as TRACKER_REGISTRY
    from ding_lite.utils.registry import WORLD_MODEL_REGISTRY as WORLD_MODEL_REGISTRY
    from ding_lite.utils.registry import ConfigError as ConfigError
    from ding_lite.utils.registry import Registry as Registry
    from ding_lite.utils.registry import UserError as UserError
    from ding_lite.utils.registry import closest as closest
    from ding_lite.utils.seed import random_state as random_state
    from ding_lite.utils.seed import set_random_state as set_random_state
    from ding_lite.utils.seed import set_seed as set_seed
    from ding_lite.utils.tree import tree_map as tree_map
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
