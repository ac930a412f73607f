"""Values that DI-engine's config files hold and that are written otherwise here."""

from __future__ import annotations

import copy
import importlib.metadata
import itertools
import sys
from pathlib import Path
from typing import Any

import gymnasium
import pytest
import torch
from torch import nn

from ding_lite.config import compile_config
from ding_lite.config.user import OLD_ANTS, RENAMED_IDS
from ding_lite.di_engine.keys import IGNORED_KEYS, REDUNDANT_KEYS, RENAMED_KEYS
from ding_lite.entry import serial_pipeline, serial_pipeline_ngu
from ding_lite.model.recurrent import create_core
from ding_lite.policy import DQNPolicy
from ding_lite.utils.key import get_key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from dizoo.bitflip.entry.bitflip_dqn_main import main
from tests.config.helpers import nested, pair

CREATE = dict(policy=dict(type="dqn"))


@pytest.mark.parametrize(("old", "new"), RENAMED_IDS.items())
def test_a_retired_id_has_a_successor_that_gymnasium_knows(old: str, new: str) -> None:
    main = dict(env=dict(env_id=old))
    cfg = compile_config((main, CREATE))
    assert cfg.env.env_id == new
    assert cfg.notes[0] == f"env.env_id '{old}' is '{new}' here: gymnasium has retired the old version."
    assert len(cfg.notes) == (2 if old in OLD_ANTS else 1)
    assert main == dict(env=dict(env_id=old))
    assert gymnasium.spec(new).id == new


def test_a_retired_id_on_the_command_line_has_its_successor_too() -> None:
    cfg = compile_config((dict(env=dict(env_id="CartPole-v0")), CREATE), overrides=["env.env_id=LunarLander-v2"])
    assert cfg.env.env_id == "LunarLander-v3"


TWO, WIDE, IQL = [64, 64], [256, 256], [512, 512, 512]
# Sizes of hidden layers in DI-engine 0.5.3, from its models and the classes of its offline policies.
HIDDEN: dict[str, dict[str, list[int]]] = {
    **{kind: {"actor": TWO, "critic": TWO} for kind in ("sac", "td3", "ddpg", "d4pg")},
    **{kind: {"actor": WIDE, "critic": WIDE} for kind in ("cql", "td3_bc")},
    "edac": {"actor": WIDE, "critic": [256]},
    "iql": {"actor": [512, *IQL], "critic": IQL, "value": IQL},
}


@pytest.mark.parametrize(("kind", "hidden"), HIDDEN.items())
def test_a_config_without_sizes_trains_the_networks_of_di_engine(kind: str, hidden: dict[str, list[int]]) -> None:
    main = dict(env=dict(env_id="Pendulum-v1"), policy=dict(model=dict(obs_shape=3, action_shape=2)))
    policy: Any = POLICY_REGISTRY.find(kind)(compile_config((main, dict(policy=dict(type=kind)))).policy)
    assert {name for name, _ in policy.model.named_children()} == set(hidden)
    for name, sizes in hidden.items():
        network = getattr(policy.model, name)
        for head in getattr(network, "heads", [network]):
            layers = [module for module in head.modules() if isinstance(module, nn.Linear)]
            assert [layer.out_features for layer in layers[:-1]] == sizes
            assert layers[0].in_features == 3 + 2 * (name == "critic")


def dense(*sizes: int) -> int:
    """Return the number of parameters of dense layers."""
    return sum((before + 1) * after for before, after in itertools.pairwise(sizes))


@pytest.mark.parametrize(
    ("kind", "shapes", "number"),
    [
        # its MAPPO has 425,990 parameters for simple_spread: 18 features of an agent, 48 of the state, 5 actions
        ("mappo", dict(agent_num=3, obs_shape=18, global_obs_shape=48, action_shape=5, agent_id=False),
         dense(18, 256, 256, 256, 5) + dense(48, 512, 512, 1)),
        # two encoders, the policy's head, the heads of two values
        ("ppg", dict(obs_shape=4, action_shape=2),
         2 * dense(4, 128, 128, 64) + dense(64, 64, 64, 2) + 2 * dense(64, 64, 1)),
        # encoders of three agents' policies and of the one critic
        ("happo", dict(agent_num=3, obs_shape=18, global_obs_shape=48, action_shape=5),
         3 * dense(18, 128, 128, 64, 64, 64, 5) + dense(48, 128, 128, 64, 64, 1)),
        # COMA's critic sees the agent, its number, the state and everybody's actions
        ("coma", dict(agent_num=3, obs_shape=18, global_obs_shape=48, action_shape=5, lstm_type=None, agent_id=False),
         dense(18, 128, 128, 64, 64, 5) + dense(18 + 3 + 48 + 15, 64, 64, 5)),
    ],
)  # fmt: skip
def test_other_networks_without_sizes_have_di_engines_layers(kind: str, shapes: dict[str, Any], number: int) -> None:
    main = dict(env=dict(env_id="Any-v0"), policy=dict(model=shapes))
    policy: Any = POLICY_REGISTRY.find(kind)(compile_config((main, dict(policy=dict(type=kind)))).policy)
    assert sum(parameter.numel() for parameter in policy.model.parameters()) == number


def test_an_offline_config_of_di_engine_compiles_as_it_is() -> None:
    learn = dict(
        train_epoch=30000, batch_size=128, learning_rate_actor=1e-4, learning_rate_critic=1e-3, ignore_done=False,
        target_theta=0.005, discount_factor=0.98, actor_update_freq=2, noise=True, noise_sigma=0.2,
        noise_range=dict(min=-0.5, max=0.5), alpha=2.5,
    )  # fmt: skip
    policy = dict(
        priority=False, random_collect_size=800, learn=learn, command=dict(),
        model=dict(obs_shape=3, action_shape=1, twin_critic=True, action_space="regression"),
        collect=dict(noise_sigma=0.1, data_type="hdf5", data_path="./expert_demos.hdf5", collector_logit=False),
        other=dict(replay_buffer=dict(replay_buffer_size=20000)),
    )  # fmt: skip
    statistics = dict(use_norm=True, offline_stats=dict(use_offline_stats=True))
    env = dict(collector_env_num=8, evaluator_env_num=5, n_evaluator_episode=5, stop_value=-250, norm_obs=statistics)
    names = dict(env=["dizoo.classic_control.pendulum.envs.pendulum_env"], policy=["ding_lite.policy.td3_bc"])
    create = dict(
        env=dict(type="pendulum", import_names=names["env"]), env_manager=dict(type="base"),
        policy=dict(type="td3_bc", import_names=names["policy"]),
    )  # fmt: skip
    cfg = compile_config((dict(exp_name="pendulum_td3_bc", env=env, policy=policy), create))
    assert "offline" not in cfg.policy  # the class says it
    assert (cfg.policy.learn.train_epoch, cfg.policy.discount_factor, cfg.env.norm_obs.use_norm) == (30000, 0.98, True)
    ignored = {note.partition(" is ignored")[0] for note in cfg.notes if "is ignored" in note}
    paths = ("command", "priority", "random_collect_size", "collect.collector_logit", "other.replay_buffer")
    assert ignored == {f"policy.{path}" for path in paths}


def test_modules_are_found_under_their_paths_in_di_engine() -> None:
    main = dict(policy=dict(collect=dict(data_path="x.npz")))
    create = dict(policy=dict(type="cql", import_names=["ding_lite.policy.cql"]))
    assert compile_config((main, create)).policy.type == "cql"
    td3 = dict(policy=dict(type="td3", import_names=["ding_lite.policy.td3"]))  # here a class of ddpg.py
    assert compile_config(({}, td3)).policy.type == "td3"
    create["policy"]["import_names"] = ["ding_lite.policy.cqll"]
    with pytest.raises(ConfigError, match=r"cannot import 'ding_lite\.policy\.cqll'"):
        compile_config((main, create))


def test_d4rls_names_are_a_robot_of_gymnasium_and_a_data_set_of_minari() -> None:
    create = dict(
        env=dict(type="d4rl", import_names=["dizoo.d4rl.envs.d4rl_env"]),
        env_manager=dict(type="base", cfg_type="BaseEnvManagerDict"),
        policy=dict(type="iql", import_names=["ding_lite.policy.iql"]),
    )
    env = dict(env_id="hopper-medium-v2", use_act_scale=True, reward_norm="iql_locomotion")
    policy = dict(learn=dict(data_path=None), collect=dict(data_type="d4rl", data_path=None))
    cfg = compile_config((dict(env=env, policy=policy), create))
    assert (cfg.env.type, cfg.env.env_id, cfg.policy.collect.reward_norm) == (
        "gymnasium",
        "Hopper-v5",
        "iql_locomotion",
    )
    assert (cfg.policy.collect.data_type, cfg.policy.collect.data_path) == ("minari", "mujoco/hopper/medium-v0")
    (told,) = [note for note in cfg.notes if "hopper-medium-v2" in note]
    try:
        version = importlib.metadata.version("mujoco")
    except importlib.metadata.PackageNotFoundError:
        version = "(not installed)"
    assert f"'Hopper-v5' here, of MuJoCo {version}, with the Minari data set 'mujoco/hopper/medium-v0'." in told
    policy["collect"] = dict(data_type="d4rl", data_path="mine.hdf5")
    own = compile_config((dict(env=env, policy=policy), create)).policy.collect
    assert (own.data_type, own.data_path) == ("", "mine.hdf5")
    for name in ("kitchen-complete-v0", "hopper", None):
        with pytest.raises(ConfigError, match=r"^env\.env_id: expected one of ant, .* such as 'hopper-medium-v2'"):
            compile_config((dict(env=dict(env, env_id=name), policy=policy), create))


def test_d4rls_hands_are_those_of_gymnasium_robotics(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = dict(env=dict(env_id="pen-human-v0")), dict(env=dict(type="d4rl"), policy=dict(type="bc"))
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "gymnasium_robotics", None)
        with pytest.raises(ConfigError, match=r"cannot import 'gymnasium_robotics': .* Is it installed"):
            compile_config(pair)
    pytest.importorskip("gymnasium_robotics", exc_type=ImportError)
    cfg = compile_config(pair)
    assert (cfg.env.env_id, cfg.policy.collect.data_path) == ("AdroitHandPen-v1", "D4RL/pen/human-v2")


def test_di_engines_sac_reads_the_discount_of_its_section_learn() -> None:
    main = dict(env=dict(env_id="Pendulum-v1"), policy=dict(discount_factor=0.97, learn=dict(discount_factor=0.99)))
    cfg = compile_config((main, dict(policy=dict(type="sqil_sac"))))
    assert cfg.policy.discount_factor == 0.99
    assert "policy.discount_factor is ignored: DI-engine's 'sac' reads policy.learn.discount_factor." in cfg.notes
    with pytest.raises(ConfigError, match=r"policy\.learn\.discount_factor=0\.99 contradicts policy\.discount_factor"):
        compile_config((dict(main, env=dict(env_id="CartPole-v1")), dict(policy=dict(type="dqn"))))


def test_di_engines_coma_has_other_keys() -> None:
    model = dict(agent_num=3, obs_shape=dict(agent_state=18, global_state=30), action_shape=5)
    policy = dict(model=model, collect=dict(n_episode=32, unroll_len=10))
    cfg = compile_config((dict(env=dict(env_id="Any-v0"), policy=policy), dict(policy=dict(type="coma"))))
    assert (cfg.policy.model.obs_shape, cfg.policy.model.global_obs_shape) == (18, 30)
    assert {"n_episode", "unroll_len"}.isdisjoint(cfg.policy.collect)


def test_di_engines_decision_transformer_has_other_keys() -> None:
    policy = dict(
        stop_value=195, state_mean=None, state_std=None, rtg_target=200, evaluator_env_num=8, env_name="CartPole-v1",
        max_eval_ep_len=1000, wt_decay=1e-3, warmup_steps=100, context_len=20, weight_decay=0.1, clip_grad_norm_p=0.5,
        model=dict(state_dim=4, act_dim=2, n_blocks=3, h_dim=128, context_len=10, n_heads=1, drop_p=0.1,
                   continuous=False),
        batch_size=32, learning_rate=1e-4, collect=dict(data_type="d4rl_trajectory", unroll_len=1),
    )  # fmt: skip
    dataset = dict(env_type="classic", rtg_scale=200, context_len=30, data_dir_prefix="cartpole.hdf5")
    main = dict(env=dict(env_id="CartPole-v1"), dataset=dataset, policy=policy)
    cfg = compile_config((main, dict(policy=dict(type="dt"))))
    learn, found = cfg.policy.learn, (cfg.policy.context_len, cfg.policy.rtg_scale, cfg.policy.rtg_target)
    assert found == (10, 200, 200)  # its policy reads model.context_len
    assert (learn.batch_size, learn.weight_decay, learn.grad_clip_value) == (32, 1e-3, 0.5)
    assert dict(learn.learning_rate) == dict(type="linear", start=1e-6, end=1e-4, over=100, by="iteration")
    assert (cfg.policy.collect.data_path, cfg.policy.collect.data_type) == ("cartpole.hdf5", "")
    assert cfg.env.norm_obs.use_norm is True
    assert "The keys of DI-engine's 'dt' have other names here, see docs/from_di_engine.md." in cfg.notes


def test_what_di_engines_classes_set_counts_where_a_config_says_nothing() -> None:
    image = dict(obs_shape=[4, 84, 84], action_shape=6)
    main = dict(env=dict(env_id="Any-v0"), policy=dict(model=image))
    transformer = compile_config((main, dict(policy=dict(type="r2d2_gtrxl")))).policy
    assert transformer.model.memory == dict(type="gtrxl", memory_len=84, layer_num=3)
    assert (transformer.model.encoder_hidden_size_list, transformer.learn.value_rescale) == ([128, 128, 16], False)
    main = dict(env=dict(env_id="Any-v0"), policy=dict(model=dict(state_dim=[4, 84, 84], act_dim=6, h_dim=96)))
    assert compile_config((main, dict(policy=dict(type="dt")))).policy.model.encoder_hidden_size_list == [
        32,
        64,
        64,
        96,
    ]
    for kind, cuda in dict(qmix=True, wqmix=True, madqn=True, coma=False, mappo=False).items():
        assert compile_config((dict(env=dict(env_id="Any-v0")), dict(policy=dict(type=kind)))).policy.cuda is cuda


def test_a_learning_rate_that_decays_as_in_di_engine_is_pointed_to_schedules() -> None:
    learn = dict(lr_decay=True, decay_epoch=30, decay_rate=0.1, warmup_epoch=5, warmup_lr=1e-4)
    with pytest.raises(
        ConfigError, match=r"lr_decay: expected False \(a schedule of policy\.learn\.learning_rate sets it"
    ):
        compile_config((dict(env=dict(env_id="CartPole-v0"), policy=dict(learn=learn)), CREATE))
    cfg = compile_config(
        (dict(env=dict(env_id="CartPole-v0"), policy=dict(learn={**learn, "lr_decay": False})), CREATE)
    )
    assert len(cfg.notes) == 5


@pytest.mark.parametrize("path", [path for path in IGNORED_KEYS if not path.startswith("create_config")])
def test_key_without_meaning_is_accepted_with_a_note(path: Any) -> None:
    accepted, reason = IGNORED_KEYS[path]
    value = dict(some="thing") if accepted is Any else accepted[-1] if isinstance(accepted, tuple) else accepted
    if path in (
        "policy.nstep",
        "policy.other.eps",
        "policy.other.replay_buffer",
        "policy.priority",
        "policy.priority_IS_weight",
    ):
        cfg = compile_config((nested(path, value), dict(policy=dict(type="pg"))))
    elif path.startswith(("policy.learn.learner", "policy.other.eps.")):
        create = dict(env=dict(type="cartpole", import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"]))
        cfg = compile_config((nested(path, value), {**create, "policy": dict(type="dqn")}))
    elif path.startswith("policy.aux_model."):
        cfg = compile_config((nested(path, value), dict(policy=dict(type="dqn_stdim"))))
    elif path.startswith("reward_model."):
        main, create = pair(nested(path, value))
        cfg = compile_config((main, {**create, "reward_model": dict(type="icm")}))
    elif path.startswith("world_model."):
        create = dict(policy=dict(type="sac"), world_model=dict(type="mbpo"))
        cfg = compile_config((nested(path, value), create))
    else:
        cfg = compile_config(pair(nested(path, value)))
    assert cfg.notes == [f"{path} is ignored: {reason}."]
    assert get_key(cfg, path, "absent") == "absent"


def learn(**keys: Any) -> dict[str, Any]:
    return dict(policy=dict(learn=keys))


OPTIMIZER, BUFFER, CONTACTS = "policy.learn.optimizer", "policy.other.replay_buffer", "env.kwargs.use_contact_forces"
OWN_BUFFER = {  # DI-engine's naive buffer ignores priorities, its advanced buffer does not
    "naive": "the policy's own buffer here, which draws by priority if policy.priority is True",
    "advanced": "the policy's own buffer here",
}
NEW_ANT = "env.env_id 'Ant-v3' is 'Ant-v4' here: gymnasium has retired the old version."
# Type of policy, main config, more of the create config; some keys of the compiled config, and all of its notes.
CONVERSIONS: list[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], list[str]]] = [
    ("dqn", dict(env=dict(env_id="Ant-v3", kwargs={})), {}, {CONTACTS: True},
     [NEW_ANT, f"{CONTACTS} is True, as in 'Ant-v3'."]),
    ("dqn", dict(env=dict(env_id="Ant-v3", kwargs=dict(use_contact_forces=False))), {}, {CONTACTS: False}, [NEW_ANT]),
    ("dqn", dict(policy=dict(model=dict(activation=nn.Tanh()))), {}, {"policy.model.activation": "tanh"}, []),
    ("dqn", dict(policy=dict(model=dict(activation=nn.Tanh))), {}, {"policy.model.activation": "tanh"}, []),
    ("dqn", learn(optimizer="SGD", momentum=0.9), {}, {OPTIMIZER: "sgd", "policy.learn.momentum": 0.9},
     [f"{OPTIMIZER} 'SGD' is 'sgd' here."]),
    ("dqn", learn(optimizer="Adam"), {}, {OPTIMIZER: "adam"}, [f"{OPTIMIZER} 'Adam' is 'adam' here."]),
    ("dqn", learn(optimizer="Adam", weight_decay=1e-4), {}, {OPTIMIZER: "adamw"},
     [f"{OPTIMIZER} 'Adam' with a weight decay is 'adamw' here."]),
    ("dqn", learn(optim="rmsprop"), {}, {OPTIMIZER: "rmsprop"}, [f"policy.learn.optim is {OPTIMIZER} here."]),
    ("dqn", learn(betas=(0, 0.99), eps=1e-5), {},
     {OPTIMIZER: "adam", "policy.learn.betas": [0, 0.99], "policy.learn.adam_eps": 1e-5},
     ["policy.learn.eps is policy.learn.adam_eps here."]),
    *[("dqn", dict(policy=dict(priority=priority, other=dict(replay_buffer=dict(type=name, replay_buffer_size=500)))),
       {}, {f"{BUFFER}.type": own, f"{BUFFER}.replay_buffer_size": 500}, [f"{BUFFER}.type '{name}' is {meaning}."])
      for name, meaning in OWN_BUFFER.items() for priority, own in ((False, "uniform"), (True, "prioritized"))],
    *[("dqn", dict(policy=dict(priority=True)), dict(replay_buffer=dict(type=name)), {f"{BUFFER}.type": "prioritized"},
       [f"create_config.replay_buffer.type '{name}' is {meaning}."]) for name, meaning in OWN_BUFFER.items()],
    *[(kind, nested(path, 42), {}, {}, [f"{path} is ignored: {REDUNDANT_KEYS[path][1]}."])
      for path, kind in (
          ("policy.collect.n_sample", "bc"),
          *((f"policy.collect.{key}", "r2d2") for key in ("n_episode", "unroll_len")),
      )],
    ("ppg_offpolicy", dict(policy=dict(other=dict(replay_buffer=dict(multi_buffer=True)))),
     {}, {"policy.type": "ppg"},
     ["create_config.policy.type 'ppg_offpolicy' is 'ppg' here.",
      f"policy.other.replay_buffer is ignored: {IGNORED_KEYS['policy.other.replay_buffer'][1]}."]),
    ("dqn", {}, dict(learner=dict(type="base"), collector=dict(type="sample")), {},
     [f"create_config.{part} is ignored: {IGNORED_KEYS[f'create_config.{part}'][1]}."
      for part in ("learner", "collector")]),
    *[("ppo", dict(policy=dict(model=model | dict(impala_cnn_encoder=True))), {}, {"policy.model.encoder": "impala"},
       ["policy.model.impala_cnn_encoder is policy.model.encoder='impala' here."])
      for model in ({}, dict(encoder="impala"))],
    ("bc", dict(policy=dict(eval=dict(evaluator=dict(eval_freq=-1)))), {}, {"policy.eval.evaluator.eval_freq": 1000},
     ["policy.eval.evaluator.eval_freq=-1 is left out: evaluations have an interval of iterations."]),
    ("ppo", dict(reward_model=dict(intrinsic_reward_weight=None)), dict(reward_model=dict(type="rnd")),
     {"reward_model.intrinsic_reward_weight": 0.5},
     ["reward_model.intrinsic_reward_weight=None is left out: "
      "bonuses are divided by the deviation of their discounted sums."]),
    ("a2c", dict(policy=dict(priority=True)), {}, {"policy.priority": "absent"},
     [f"policy.priority is ignored: {IGNORED_KEYS['policy.priority'][1]}."]),
    ("dqn", learn(alpha=0.1), {}, {"policy.learn.alpha": "absent"},
     [f"policy.learn.alpha is ignored: {IGNORED_KEYS['policy.learn.alpha'][1]}."]),
    # 500 env steps, with 20 updates for each 10 of them, which ten environments play together
    ("sac", dict(env=dict(collector_env_num=10), world_model=dict(eval_freq=250),
                 policy=dict(learn=dict(update_per_collect=20), collect=dict(n_sample=1),
                             eval=dict(evaluator=dict(eval_freq=500)))),
     dict(world_model=dict(type="mbpo")), {"policy.eval.evaluator.eval_freq": 1000},
     ["policy.eval.evaluator.eval_freq=500 env steps are 1000 learner iterations here.",
      f"world_model.eval_freq is ignored: {IGNORED_KEYS['world_model.eval_freq'][1]}.",
      "policy.collect.n_sample=1 is 10 here: 10 environments step together."]),
    ("ppo", dict(policy=dict(model=dict(impala_cnn_encoder=False))), {}, {"policy.model": {}},
     ["policy.model.impala_cnn_encoder is policy.model.encoder=None here."]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "main", "create", "expected", "notes"), CONVERSIONS)
def test_what_di_engine_writes_otherwise_is_understood(
    kind: str, main: Any, create: Any, expected: dict[str, Any], notes: list[str]
) -> None:
    before = copy.deepcopy(main)
    cfg = compile_config((main, dict(policy=dict(type=kind)) | create))
    assert sorted(cfg.notes) == sorted(notes)
    assert {path: get_key(cfg, path, "absent") for path in expected} == expected
    assert str(main) == str(before)


@pytest.mark.parametrize(("old", "new"), RENAMED_KEYS.items())
def test_older_name_moves_to_the_new_one(old: Any, new: Any) -> None:
    values = {
        "env.n_evaluator_episode": 16,
        "env.max_episode_steps": 9,
        "env.stop_value": 3,
        "policy.model.action_space": "discrete",
    }
    values |= {"policy.discount_factor": 0.5, "policy.learn.grad_clip_value": 5.0, "policy.learn.kappa": 0.5}
    values |= {"policy.learn.adam_eps": 1e-5, "policy.learn.optimizer": "sgd", "policy.learn.target_theta": 0.1}
    values |= {"policy.collect.n_sample": 64, "policy.unroll_len": 8, "policy.model.obs_shape": 4}
    of_phases = {f"policy.learn.{key}": 3 for key in ("epoch_per_collect", "aux_train_epoch", "aux_bc_weight")}
    values |= {"policy.model.encoder_hidden_size_list": [8], "policy.collect.reward_norm": "normalize", **of_phases}
    value = values.get(new, True)
    kinds = {"policy.model.action_space": "ppo", "policy.learn.adv_norm": "ppo", "policy.learn.kappa": "qrdqn"}
    kinds |= {"policy.collect.reward_norm": "iql", **dict.fromkeys(of_phases, "ppg")}
    kind = kinds.get(new, "impala" if new == "policy.unroll_len" else "dqn")
    others = {"ppo": ["policy.collect.n_sample=64"], "ppg": [], "impala": [], "iql": []}
    overrides = others.get(kind, ["policy.priority=True"])
    needed = {"policy.bp_update_sync": ["policy.multi_gpu=True"]}  # options that keys belong to
    overrides = overrides + needed.get(new, ["policy.learn.grad_clip_type=clip_norm"])
    cfg = compile_config((nested(old, value), dict(policy=dict(type=kind))), overrides=overrides)
    assert get_key(cfg, new) == value
    assert get_key(cfg, old, "absent") == "absent"
    assert cfg.notes == [f"{old} is {new} here."]


def test_older_names_of_a_models_keys_are_accepted_beside_a_model() -> None:
    main = dict(env=dict(env_id="Pendulum-v1"), policy=dict(action_space="continuous"))
    cfg = compile_config((main, dict(policy=dict(type="ppo_pg"))), model_given=True)
    assert cfg.policy.model == dict(action_space="continuous")


def test_older_name_that_the_policy_declares_itself_stays() -> None:
    @POLICY_REGISTRY.register("config_test_declares")
    class Declares(DQNPolicy):
        config = dict(type="config_test_declares", learn=dict(discount_factor=0.5))

    cfg = compile_config((nested("policy.learn.discount_factor", 0.25), dict(policy=dict(type="config_test_declares"))))
    assert (cfg.policy.learn.discount_factor, cfg.policy.discount_factor, cfg.notes) == (0.25, 0.99, [])


def test_older_name_of_what_the_policy_lacks_is_unknown_as_it_was_written() -> None:
    with pytest.raises(ConfigError, match=r"Unknown key 'policy\.action_space'"):
        compile_config((nested("policy.action_space", "discrete"), dict(policy=dict(type="dqn"))))


def test_older_and_new_name_may_not_disagree() -> None:
    main = dict(policy=dict(multi_gpu=False, learn=dict(multi_gpu=True)))
    with pytest.raises(ConfigError, match=r"policy.learn.multi_gpu=True contradicts policy.multi_gpu=False"):
        compile_config(pair(main))


def test_older_types_are_understood() -> None:
    cfg = compile_config(
        pair(
            policy=dict(type="config_test_command"),
            env_manager=dict(type="async_subprocess", shared_memory=False),
            replay_buffer=dict(type="advanced"),
        )
    )
    assert (cfg.policy.type, cfg.env.manager.type) == ("config_test", "subprocess")
    assert cfg.policy.other.replay_buffer.type == "uniform"
    assert len(cfg.notes) == 4


def test_the_switch_for_impalas_encoder_may_not_contradict_its_name() -> None:
    main = dict(policy=dict(model=dict(impala_cnn_encoder=True, encoder="conv")))
    with pytest.raises(ConfigError, match="impala_cnn_encoder=True contradicts"):
        compile_config((main, dict(env=dict(env_id="CartPole-v1"), policy=dict(type="ppo"))))


def test_a_config_is_compiled_and_saved_by_the_arguments_of_di_engine(tmp_path: Path) -> None:
    main, create = dict(exp_name=str(tmp_path / "new" / "run"), env=dict(env_id="CartPole-v1")), dict(CREATE)
    whole = compile_config((main, create), seed=3)
    cfg = compile_config(main, seed=3, auto=True, create_cfg=create, save_cfg=True, save_path="mine.py")
    assert cfg == whole == compile_config(tmp_path / "new" / "run" / "mine.py")
    assert [path.name for path in (tmp_path / "new").rglob("*")] == ["run", "mine.py"]
    with pytest.raises(ConfigError, match=r"auto=False\): give create_config"):
        compile_config(main, auto=False, create_cfg=create)
    with pytest.raises(ConfigError, match=r"env.dynamic_seed: the engine of env_manager.type 'native' only takes"):
        serial_pipeline((main, create | {"env_manager": {"type": "native"}}), 0, None, None, 10, 10, False)


def test_di_engines_list_of_classes_names_the_policy() -> None:
    main = dict(env=dict(env_id="CartPole-v1"))
    cfg = compile_config(main, object, DQNPolicy, dict, auto=False, seed=3)
    assert (cfg.policy.type, cfg.seed) == ("dqn", 3)
    assert compile_config(main, DQNPolicy, create_cfg=dict(policy=dict(type="ppo"))).policy.type == "ppo"
    with pytest.raises(ConfigError, match="expected a registered policy class among the classes"):
        compile_config(main, object, auto=False)


def test_a_config_with_fewer_actions_plays_the_first_ones(tmp_path: Path) -> None:
    main: Any = dict(exp_name=str(tmp_path / "run"), env=dict(env_id="Acrobot-v1", max_episode_steps=20))
    main["policy"] = dict(model=dict(action_shape=2), random_collect_size=64, learn=dict(batch_size=16))
    policy = serial_pipeline((main, CREATE), seed=0, max_train_iter=2)
    assert policy.model(torch.zeros(1, 6))["logit"].shape == (1, 2)  # of Acrobot's three
    saved = compile_config(tmp_path / "run" / "total_config.py")
    assert saved.env.wrappers == [dict(name="ding_lite.envs.actions:FirstActions", number=2)]
    main["policy"]["model"]["action_shape"] = 4
    with pytest.raises(ConfigError, match=r"action_shape: expected the environment's 3 .* got 4"):
        serial_pipeline((main, CREATE), seed=0, max_train_iter=2)


def test_the_transformer_of_di_engine_is_the_memory_of_r2d2() -> None:
    model = dict(memory_len=5, hidden_size=64, gru_bias=1, att_layer_num=3, dropout=0.1, att_head_num=4)
    main = dict(env=dict(env_id="CartPole-v1"), policy=dict(model=model, seq_len=8))
    cfg = compile_config((main, dict(policy=dict(type="r2d2_gtrxl"))))
    memory = dict(type="gtrxl", memory_len=13, layer_num=3, head_num=4, gate_bias=1)
    assert (cfg.policy.type, cfg.policy.model.memory) == ("r2d2", memory)
    assert (cfg.policy.model.encoder_hidden_size_list, cfg.policy.learn.value_rescale) == ([64], False)
    assert cfg.notes[0].startswith("The keys of DI-engine's 'r2d2_gtrxl' have other names here")
    assert "policy.type 'r2d2_gtrxl' is 'r2d2' with model.memory=" in cfg.notes[1]
    assert create_core(64, None, cfg.policy.model.memory).hidden_size == 64


def test_the_two_reward_models_of_di_engines_ngu_are_one() -> None:
    common: dict[str, Any] = dict(
        learning_rate=5e-4, obs_shape=4, action_shape=2, batch_size=32, nstep=5, clear_buffer_per_iters=10
    )
    common |= dict(only_use_last_five_frames_for_icm_rnd=False, intrinsic_reward_type="add", update_per_collect=3)
    rescale: dict[str, Any] = dict(last_nonzero_reward_rescale=True, last_nonzero_reward_weight=100)
    model = dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[16, 8], collector_env_num=4)
    policy = dict(
        nstep=5, burnin_step=2, learn_unroll_len=4, model=model, learn=dict(target_update_theta=0.001),
        collect=dict(n_sample=4, traj_len_inf=True, env_num=4), other=dict(eps=dict(start=0.95, decay=1e4)),
    )  # fmt: skip
    main_config = dict(
        exp_name="ngu",
        env=dict(env_id="CartPole-v1", collector_env_num=4, obs_plus_prev_action_reward=True),
        rnd_reward_model=common | dict(type="rnd-ngu", hidden_size_list=[16, 8]),
        episodic_reward_model=common | rescale | dict(type="episodic", hidden_size_list=[16, 8]),
        policy=policy,
    )
    create = dict(
        policy=dict(type="ngu"), rnd_reward_model=dict(type="rnd-ngu"), episodic_reward_model=dict(type="episodic")
    )
    cfg = compile_config((main_config, create))
    assert cfg.reward_model.type == "ngu"
    assert (cfg.reward_model.final_reward_weight, cfg.reward_model.hidden_size_list) == (100, [16, 8])
    assert (cfg.policy.num_policies, cfg.policy.unroll_len, cfg.policy.other.eps.start) == (4, 4, 0.4)
    assert any("are the reward_model 'ngu' here" in note for note in cfg.notes)
    assert serial_pipeline_ngu((main_config, create), seed=0, max_train_iter=2).iteration >= 2
    main_config["episodic_reward_model"]["last_nonzero_reward_wieght"] = 1  # type: ignore[index]
    with pytest.raises(ConfigError, match=r"Unknown key 'reward_model\.last_nonzero_reward_wieght'"):
        compile_config((main_config, create))


def test_di_engines_r2d3_has_other_keys() -> None:
    learn = dict(lambda1=1.0, lambda2=1, lambda3=1e-5, lambda_one_step_td=1, margin_function=0.8, per_train_iter_k=0)
    policy = dict(learn_unroll_len=40, burnin_step=2, learn=learn, collect=dict(n_sample=32, pho=1 / 8))
    cfg = compile_config((dict(env=dict(env_id="CartPole-v1"), policy=policy), dict(policy=dict(type="r2d3"))))
    buffer = cfg.policy.other.replay_buffer
    assert (buffer.type, buffer.ratio) == ("demonstration_sequences", 0.125)
    assert (cfg.policy.learn.weight_decay, cfg.policy.learn.lambda_one_step_td) == (1e-5, 1)


def her_pair(**her: Any) -> Any:
    """Return the values of DI-engine's bitflip_her_dqn_config.py."""
    policy = dict(
        cuda=False, discount_factor=0.8, collect=dict(n_episode=8, unroll_len=1),
        model=dict(obs_shape=10, action_shape=5, encoder_hidden_size_list=[128, 128, 64], dueling=True),
        learn=dict(update_per_collect=10, batch_size=128, learning_rate=0.0005, target_update_freq=500),
        eval=dict(evaluator=dict(eval_freq=1000)),
        other=dict(eps=dict(type="exp", start=0.2, end=0.2, decay=100), replay_buffer=dict(replay_buffer_size=4000),
                   her=dict(episode_size=32, sample_per_episode=4, **her)),
    )  # fmt: skip
    env = dict(collector_env_num=8, evaluator_env_num=16, n_bits=5, n_evaluator_episode=16, stop_value=0.9)
    create = dict(policy=dict(type="dqn"), replay_buffer=dict(type="episode"), collector=dict(type="episode"))
    create["env"] = dict(type="bitflip", import_names=["dizoo.bitflip.envs.bitflip_env"])  # type: ignore[dict-item]
    return dict(exp_name="bits", env=env, policy=policy), create


def test_di_engines_goals_in_hindsight_are_a_replay_buffer() -> None:
    cfg = compile_config(her_pair(her_strategy="final", her_replay_k=2))
    buffer = cfg.policy.other.replay_buffer
    assert (buffer.type, buffer.her_strategy, buffer.her_replay_k) == ("her", "final", 2)
    notes = " ".join(cfg.notes)
    for part in ("other.her is", "counts env steps here", "n_episode is ignored", "obs_shape is ignored"):
        assert part in notes
    policy = main(her_pair(her_strategy="future")[0], seed=0, max_train_iter=10)
    assert policy.iteration >= 10


@pytest.mark.parametrize(("her", "found"), [(dict(her_stratgy="final"), "got 'her_stratgy'"), (None, "got int 3")])
def test_a_wrong_section_for_hindsight_is_an_error(her: Any, found: str) -> None:
    main_config, create = her_pair(**(her or {}))
    if her is None:
        main_config["policy"]["other"]["her"] = 3
    with pytest.raises(ConfigError, match=rf"policy\.other\.her: expected a dict with the keys .*, {found}"):
        compile_config((main_config, create))


def test_dqfd_with_priorities_draws_own_samples_by_priority() -> None:
    policy = dict(priority=True, learn=dict(lambda3=1e-5), collect=dict(model_path="expert.pth.tar"))
    cfg = compile_config((dict(policy=policy), dict(policy=dict(type="dqfd"))))
    assert (cfg.policy.other.replay_buffer.type, cfg.policy.other.replay_buffer.alpha) == ("demonstrations", 0.6)
