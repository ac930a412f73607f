"""The names that users import; taking one away breaks their code."""

from __future__ import annotations

import importlib

import pytest

PUBLIC = {
    "ding_lite.config": ["check_shapes", "compile_config", "read_config", "save_config"],
    "ding_lite.entry": ["evaluate_checkpoint", "serial_pipeline"],
    "ding_lite.envs": [
        "ENV_DEFAULTS",
        "EnvSpec",
        "EpisodeMonitor",
        "check_env",
        "create_vector_env",
        "derive_seeds",
        "make_gymnasium",
    ],
    "ding_lite.model": [
        "DQN",
        "MLP",
        "ConvEncoder",
        "DiscreteHead",
        "DuelingHead",
        "NoisyLinear",
        "create_encoder",
    ],
    "ding_lite.policy": ["DQNPolicy", "Policy"],
    "ding_lite.rl_utils": [
        "epsilon_greedy",
        "get_epsilon_greedy_fn",
        "nstep_return",
        "q_nstep_td_data",
        "q_nstep_td_error",
    ],
    "ding_lite.utils": [
        "BUFFER_REGISTRY",
        "CheckpointError",
        "ConfigError",
        "DDPContext",
        "ENV_REGISTRY",
        "ExperimentLogger",
        "FlatParameters",
        "InterruptGuard",
        "MODEL_REGISTRY",
        "POLICY_REGISTRY",
        "Progress",
        "Registry",
        "UserError",
        "all_gather_object",
        "allreduce_data",
        "broadcast_module",
        "broadcast_object_list",
        "closest",
        "create_exp_dir",
        "get_local_rank",
        "get_rank",
        "get_world_size",
        "load_checkpoint",
        "random_state",
        "save_checkpoint",
        "set_random_state",
        "set_seed",
        "to_ddp_config",
        "tree_map",
    ],
    "ding_lite.worker": [
        "Evaluator",
        "Learner",
        "PrioritizedReplayBuffer",
        "SampleCollector",
        "SumTree",
        "UniformReplayBuffer",
    ],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module):
    package = importlib.import_module(module)
    assert sorted(package.__all__) == sorted(PUBLIC[module])
    for name in PUBLIC[module]:
        assert getattr(package, name) is not None
