"""Pipelines and what else a script calls.

A mistake of the user raises `UserError` or a subclass of it, whose message is one line that says what to do.
"""

from typing import TYPE_CHECKING

from ding_lite.lazy import lazy_names

if TYPE_CHECKING:
    from ding_lite.dataset.rollout_dataset import RolloutDataset as RolloutDataset
    from ding_lite.di_engine.names import serial_pipeline_dreamer as serial_pipeline_dreamer
    from ding_lite.di_engine.names import serial_pipeline_ngu as serial_pipeline_ngu
    from ding_lite.di_engine.names import serial_pipeline_onpolicy_ppg as serial_pipeline_onpolicy_ppg
    from ding_lite.di_engine.names import (
        serial_pipeline_preference_based_irl as serial_pipeline_preference_based_irl,
    )
    from ding_lite.di_engine.names import (
        serial_pipeline_preference_based_irl_onpolicy as serial_pipeline_preference_based_irl_onpolicy,
    )
    from ding_lite.di_engine.names import (
        serial_pipeline_reward_model_offpolicy as serial_pipeline_reward_model_offpolicy,
    )
    from ding_lite.di_engine.names import (
        serial_pipeline_reward_model_onpolicy as serial_pipeline_reward_model_onpolicy,
    )
    from ding_lite.imitation.serial_entry_gail import serial_pipeline_gail as serial_pipeline_gail
    from ding_lite.imitation.serial_entry_gail import serial_pipeline_guided_cost as serial_pipeline_guided_cost
    from ding_lite.launch.launcher import LaunchError as LaunchError
    from ding_lite.launch.launcher import launch as launch
    from ding_lite.observers.serial_entry_rpc import serial_pipeline_rpc as serial_pipeline_rpc
    from ding_lite.offline.demo_data import collect_demo_data as collect_demo_data
    from ding_lite.offline.serial_entry_offline import serial_pipeline_bc as serial_pipeline_bc
    from ding_lite.offline.serial_entry_offline import serial_pipeline_bco as serial_pipeline_bco
    from ding_lite.offline.serial_entry_offline import serial_pipeline_dqfd as serial_pipeline_dqfd
    from ding_lite.offline.serial_entry_offline import serial_pipeline_offline as serial_pipeline_offline
    from ding_lite.offline.serial_entry_offline import serial_pipeline_r2d3 as serial_pipeline_r2d3
    from ding_lite.offline.serial_entry_offline import serial_pipeline_sqil as serial_pipeline_sqil
    from ding_lite.run.callbacks import Callback as Callback
    from ding_lite.run.callbacks import League as League
    from ding_lite.run.pipelines import find_pipeline as find_pipeline
    from ding_lite.run.serial_entry import serial_pipeline as serial_pipeline
    from ding_lite.run.serial_entry import serial_pipeline_onpolicy as serial_pipeline_onpolicy
    from ding_lite.trained.agent import evaluate_checkpoint as evaluate_checkpoint
    from ding_lite.world_model.serial_entry_mbrl import serial_pipeline_dream as serial_pipeline_dream
    from ding_lite.world_model.serial_entry_mbrl import serial_pipeline_dyna as serial_pipeline_dyna
else:
    __all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
