"""The names that users import; taking one away breaks their code.

Policies and models are the classes in their registries; the page of an algorithm names its class.
"""

from __future__ import annotations

import importlib
import importlib.util

import jedi
import pytest

from ding_lite.utils.registry import MODEL_REGISTRY, POLICY_REGISTRY

NAMES = {
    "ding_lite.config": """
        SavedRun changed_values compile_config find_policy format_config read_config read_file
        read_pair read_saved_run replace_values save_config set_shapes
    """,
    "ding_lite": "__version__ load train",
    "ding_lite.entry": """
        Callback LaunchError League RolloutDataset collect_demo_data evaluate_checkpoint find_pipeline launch
        serial_pipeline serial_pipeline_bc serial_pipeline_bco serial_pipeline_offline serial_pipeline_onpolicy
        serial_pipeline_reward_model_offpolicy
        serial_pipeline_ngu serial_pipeline_r2d3 serial_pipeline_onpolicy_ppg serial_pipeline_dyna serial_pipeline_dream
        serial_pipeline_guided_cost
        serial_pipeline_gail serial_pipeline_reward_model_onpolicy serial_pipeline_rpc serial_pipeline_dqfd
        serial_pipeline_dreamer
        serial_pipeline_preference_based_irl serial_pipeline_preference_based_irl_onpolicy serial_pipeline_sqil
    """,
    "ding_lite.envs": """
        ENV_DEFAULTS EnvError EnvSpec EpisodeMonitor LastStep check_env create_vector_env derive_seeds make_gymnasium
    """,
    "ding_lite.model": """
        ACER ActorCritic BC BCO BCQ BDQ C51DQN COMA ContinuousBC ContinuousQAC ConvEncoder DQN DRQN DecisionTransformer
        DiscreteBC DiscreteHead
        DiscreteMAQAC DiscreteQAC DistributionHead DuelingHead EDAC FCEncoder FQF FractionHead GTrXL HAVAC HybridQAC
        IMPALAConvEncoder
        IQN MADQN MAVAC MLP NoisyLinear PDQN PG PPG PairEmbedding QAC QACDIST QACEnsemble QACQuantile QMix QRDQN QVAC
        QuantileHead RainbowDQN RecurrentCore RecurrentQAC SQN VAC ValueNetwork WQMix create_encoder
    """,
    "ding_lite.policy": "Policy create_policy",
    "ding_lite.reward_model": "IcmRewardModel NguRewardModel RewardModel RndRewardModel next_obs",
    "ding_lite.world_model": "DDPPOWorldModel MBPOWorldModel WorldModel",
    "ding_lite.rl_utils": """
        ArgmaxSampler HybridDeterminsticSampler HybridStochasticSampler MuSampler MultinomialSampler
        ReparameterizationSampler a2c_data a2c_error a2c_error_continuous a2c_loss acer_policy_error
        acer_trust_region_update acer_value_error advantage_weight bdq_nstep_td_error bootstrapped calculate_kl_div
        categorical_projection compute_importance_weights compute_q_retraces conservative_gap discounts
        dist_1step_td_data dist_1step_td_error dist_nstep_td_data dist_nstep_td_error entropy epsilon_at epsilon_greedy
        epsilon_softmax expectile_error first_episodes fqf_calculate_fraction_loss fqf_nstep_td_data fqf_nstep_td_error
        gae gae_data generalized_lambda_returns get_epsilon_greedy_fn info_nce inv_symlog iqn_nstep_td_data
        iqn_nstep_td_error
        kl_divergence log_prob log_prob_entropy m_q_1step_td_data m_q_1step_td_error mode multistep_forward_view
        nstep_return nstep_return_data nstep_sums ornstein_uhlenbeck pg_data pg_error pg_error_continuous pg_loss pick
        ppo_data ppo_data_continuous ppo_error ppo_error_continuous ppo_info ppo_loss ppo_policy_data
        ppo_policy_data_continuous ppo_policy_error ppo_policy_error_continuous ppo_policy_loss ppo_value_data
        ppo_value_error project_distribution q_1step_td_data q_1step_td_error q_nstep_sql_td_error q_nstep_td_data
        q_nstep_td_error q_nstep_td_error_with_rescale q_v_1step_td_data q_v_1step_td_error qrdqn_nstep_td_data
        family_discounts family_weights
        qrdqn_nstep_td_error sample soft_policy_value soft_value spread_epsilon squashed_sample sum_of_means symlog
        td3_bc_actor_error td_lambda_data td_lambda_error temperature_error upgo_loss upgo_returns v_1step_td_data
        v_1step_td_error v_nstep_td_data v_nstep_td_error value_inv_transform value_transform vtrace_advantage
        vtrace_data vtrace_error_continuous_action vtrace_error_discrete_action vtrace_loss vtrace_nstep_return
        weighted_mean
    """,
    "ding_lite.torch_utils": """
        NonFiniteError OptimizerStep RankDriftError RunningMeanStd TargetNetwork Trained joined_moments merge_moments
        minibatches normalize_parts rank_sizes
    """,
    "ding_lite.utils": """
        BUFFER_REGISTRY CheckpointError CheckpointStore ConfigError DDPContext ENCODER_REGISTRY ENV_REGISTRY
        ExperimentLogger FlatParameters InterruptGuard MODEL_REGISTRY POLICY_REGISTRY Progress REWARD_MODEL_REGISTRY
        Registry TRACKER_REGISTRY UserError WORLD_MODEL_REGISTRY all_gather_object allreduce_data broadcast_module
        broadcast_object_list
        closest get_local_rank get_rank get_world_size heartbeat load_checkpoint open_exp_dir random_state
        save_checkpoint set_random_state set_seed to_ddp_config tree_map
    """,
    "ding_lite.worker": """
        DatasetError EpisodeCollector Evaluator HindsightReplayBuffer Learner LoaderError OfflineDataset OfflineLoader
        Player PrioritizedReplayBuffer PrioritizedSampler ReplayBuffer Ring SQILReplayBuffer SampleCollector
        SequenceReplayBuffer SequenceView SumTree TransitionView UniformReplayBuffer UniformSampler
        create_ring_and_view read_dataset
    """,
}
PUBLIC = {module: set(names.split()) for module, names in NAMES.items()}
for package, registry in {"ding_lite.policy": POLICY_REGISTRY, "ding_lite.model": MODEL_REGISTRY}.items():
    PUBLIC[package] |= {cls.__name__ for cls in registry.values() if cls.__module__.startswith("ding_lite.")}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module: str) -> None:
    package = importlib.import_module(module)
    assert sorted(package.__all__) == sorted(PUBLIC[module])
    assert PUBLIC[module] <= set(dir(package))
    for name in PUBLIC[module]:
        assert getattr(package, name) is not None
        # once it is imported, a module of the same name would take the name's place
        assert importlib.util.find_spec(f"{module}.{name}") is None
    with pytest.raises(AttributeError, match=rf"^module '{module}' has no attribute 'nothing'$"):
        _ = package.nothing


@pytest.mark.parametrize("module", PUBLIC)
def test_an_editor_finds_what_is_imported_on_first_use(module: str) -> None:
    name = max(PUBLIC[module])
    environment = jedi.InterpreterEnvironment()
    (found,) = jedi.Script(f"from {module} import {name}", environment=environment).goto(
        1, len(f"from {module} import "), follow_imports=True
    )
    assert found.name == name
    assert found.module_name == getattr(importlib.import_module(module), name).__module__
