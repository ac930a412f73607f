"""Starter configs, the catalogue of names, and the compiled config: they run, and say what does not fit."""

from __future__ import annotations

import ast
import shlex
from pathlib import Path

import gymnasium
import pytest
from easydict import EasyDict

from ding_lite.cli.main import main
from ding_lite.cli.starter import write_starter
from ding_lite.config import compile_config, read_saved_run
from ding_lite.entry import serial_pipeline
from ding_lite.utils import POLICY_REGISTRY
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY
from tests.algorithms import ALGORITHMS
from tests.distributed.launcher import ROOT
from tests.run.helpers import CONFIG, result

OFFLINE = [name for name, cls in POLICY_REGISTRY.items() if cls.learns_from == "dataset"]
FIT = {"Box": "Pendulum-v1", "Discrete": "CartPole-v1"}


def online_pairs() -> list[tuple[str, str]]:
    """Return each policy that plays, with an environment whose actions it takes."""
    pairs = [
        (name, FIT[space.__name__])
        for name in sorted(ALGORITHMS)
        for space in POLICY_REGISTRY[name].action_spaces[:1]
        if name not in OFFLINE and space.__name__ in FIT
    ]
    assert len(pairs) > 20
    return pairs


@pytest.mark.parametrize(("algorithm", "env_id"), online_pairs())
def test_every_algorithm_has_a_starter_config_that_compiles_without_notes(algorithm: str, env_id: str) -> None:
    path = write_starter(env_id, algorithm)
    cfg = compile_config(path)
    assert (cfg.policy.type, cfg.env.env_id, cfg.notes) == (algorithm, env_id, [])
    assert cfg.exp_name == f"{path.stem.removesuffix('_config')}_seed0"
    text = path.read_text()
    assert max(map(len, text.splitlines())) <= 120
    assert "# samples per rank and iteration" in text or "# sequences per rank and iteration" in text


@pytest.mark.parametrize(
    ("env_id", "algorithm"),
    [
        ("CartPole-v1", "ppo"),
        ("CartPole-v1", "r2d2"),
        ("Acrobot-v1", "dqn"),
        ("MountainCar-v0", "pqn"),
        ("Pendulum-v1", ""),
    ],
)
def test_a_starter_config_may_step_all_environments_as_one_tensor(
    env_id: str, algorithm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["new", env_id, *algorithm.split(), "--batched", "-o", "batched.py"])
    cfg = compile_config("batched.py")
    assert (cfg.env.manager.type, cfg.env.env_id, cfg.notes) == ("batched", env_id, [])
    main(
        [
            "train",
            "-c",
            "batched.py",
            "-s",
            "0",
            "max_env_step=3000",
            "env.n_evaluator_episode=1",
            "env.evaluator_env_num=1",
        ]
    )
    assert "(batched)" in capsys.readouterr().err


def test_what_is_no_simulator_has_no_batched_starter_config(capsys: pytest.CaptureFixture[str]) -> None:
    for env_id, message in (("FrozenLake-v1", "has no vector_entry_point"), ("Hopper-v5", "leave the option out")):
        with pytest.raises(SystemExit):
            main(["new", env_id, "ppo", "--batched"])
        assert message in capsys.readouterr().err
    assert not list(Path().iterdir())


def test_a_starter_config_trains(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["new", "CartPole-v1", "dqn", "-o", "my config.py"])
    told = capsys.readouterr().out
    assert told.endswith("ding_lite train -c 'my config.py'\n")
    main([*shlex.split(told.split("\n  ding_lite ")[1]), "max_env_step=1080"])
    ended = result(tmp_path / "cartpole_dqn_seed0")
    assert (ended["envstep"], ended["train_iter"]) == (1080, 80)  # 1,000 random steps, then one iteration for each


@pytest.mark.parametrize("name", sorted(REWARD_MODEL_REGISTRY))
def test_a_starter_config_may_have_a_reward_model(name: str) -> None:
    path = write_starter("Pendulum-v1", "sac", parts=[name])
    assert str(path) == f"pendulum_sac_{name}_config.py"
    cfg = compile_config(path)
    assert (cfg.reward_model.type, cfg.notes) == (name, [])
    assert max(map(len, path.read_text().splitlines())) <= 120


def test_a_starter_config_may_have_a_world_model() -> None:
    path = write_starter("Pendulum-v1", "sac", parts=["mbpo"])
    cfg = compile_config(path)
    assert (cfg.world_model.type, cfg.world_model.model.ensemble_size, cfg.notes) == ("mbpo", 7, [])
    assert "serial_pipeline_dyna((main_config, create_config), seed=0)" in path.read_text()
    assert "serial_pipeline_dream(" in write_starter("Pendulum-v1", "mbsac", parts=["mbpo"]).read_text()


def test_a_starter_config_may_have_a_replay_buffer(capsys: pytest.CaptureFixture[str]) -> None:
    main(["new", "CartPole-v1", "dqn", "--with", "demonstrations", "-o", "mine.py"])
    assert compile_config("mine.py").policy.other.replay_buffer.type == "demonstrations"
    assert 'data_path="",  # the data set' in Path("mine.py").read_text()
    for name, buffer in (("dqfd", "demonstrations"), ("r2d3", "demonstration_sequences"), ("bco", "observations")):
        path = write_starter("MountainCar-v0", name)
        assert compile_config(path).policy.other.replay_buffer.type == buffer
        assert 'data_path="",  # the data set' in path.read_text()
    for words, message in (("ppo --with her", "has no replay buffer"), ("dqn --with gial", "Did you mean 'gail'?")):
        with pytest.raises(SystemExit):
            main(["new", "CartPole-v1", *words.split(), "-o", "other.py"])
        assert message in capsys.readouterr().err
    assert not Path("other.py").exists()


@pytest.mark.parametrize(
    ("env_id", "algorithm", "low", "high"),
    [  # rewards of 1 and of -16.27 to 0, discounted by 0.99; a landing is worth 200
        ("CartPole-v1", "c51", (0, 0), (100, 100)),
        ("Acrobot-v1", "rainbow", (-100, -100), (0, 0)),
        ("Pendulum-v1", "d4pg", (-1628, -1200), (0, 0)),
        ("LunarLander-v3", "rainbow", (-600, -300), (300, 600)),
    ],
)
def test_the_atoms_of_a_starter_config_enclose_the_returns(
    env_id: str, algorithm: str, low: tuple[int, int], high: tuple[int, int]
) -> None:
    if env_id == "LunarLander-v3":
        pytest.importorskip("Box2D")
    model = compile_config(write_starter(env_id, algorithm)).policy.model
    assert low[0] <= model.v_min <= low[1]
    assert high[0] <= model.v_max <= high[1]


@pytest.mark.parametrize(
    ("env_id", "name"),
    [("Pendulum-v1", "pendulum"), ("PongNoFrameskip-v4", "pong"), ("ALE/MsPacman-v5", "mspacman")],
)
def test_the_algorithm_is_ppo_if_none_is_given(env_id: str, name: str) -> None:
    path = write_starter(env_id)
    assert str(path) == f"{name}_ppo_config.py"
    assert compile_config(path).policy.type == "ppo"


def test_a_buffer_of_images_that_does_not_fit_is_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("Box2D")
    monkeypatch.setattr("os.sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**21}.__getitem__)  # 8 GiB
    main(["new", "CarRacing-v3", "sac"])
    assert compile_config("carracing_sac_config.py").policy.other.replay_buffer.replay_buffer_size == 100_000


def test_the_catalogue_has_every_registered_name(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    main(["list"])
    told = capsys.readouterr().out
    assert [block.splitlines()[0] for block in told.split("\n\n")] == [
        *("policies", "models", "encoders", "buffers", "reward_models", "world_models", "environments")
    ]
    for line in ("  dqn ", "  rainbow ", "  vac ", "  impala ", "  uniform ", "  gail ", "  cartpole ", "  atari "):
        assert line in told
    summaries = [line for line in told.splitlines() if line.startswith(" ")]
    assert not [line for line in summaries if line.startswith("   ")]  # what is redirected has one line for each name
    assert max(map(len, summaries)) > 80
    monkeypatch.setenv("COLUMNS", "80")
    main(["list", "buffers"])
    told = capsys.readouterr().out
    assert told.startswith("buffers\n")
    assert max(map(len, told.splitlines())) <= 80


def test_the_compiled_config_runs_again_and_its_differences_are_the_users(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    main(["config", str(CONFIG)])
    (tmp_path / "printed.py").write_text(capsys.readouterr().out)
    given, printed = compile_config(CONFIG), compile_config("printed.py")
    assert printed.policy.learn == given.policy.learn
    main(["config", str(CONFIG), "--diff", "policy.learn.batch_size=17"])
    lines = dict(line.split("=", 1) for line in capsys.readouterr().out.splitlines())
    assert lines["policy.learn.batch_size"] == "17  # default 64"
    value, _, default = lines["env.stop_value"].partition("  # default ")
    assert (ast.literal_eval(value), default) == (given.env.stop_value, "None")
    assert "policy.type" not in lines
    assert "policy.cuda" not in lines or given.policy.cuda is not False


@pytest.mark.parametrize(
    ("file", "line"),
    [
        ("atari/pong_dqn_ddp_config.py", "policy.priority=True  # default False"),
        ("atari/pong_dqn_ddp_config.py", "policy.model.encoder.layer_norm=True  # default of the model"),
        ("atari/config/serial/pong/pong_rainbow_config.py", "policy.priority=False  # default True"),
        ("classic_control/pendulum/config/pendulum_dqn_config.py", "env.continuous=False  # default True"),
    ],
)
def test_differences_of_keys_that_others_depend_on(file: str, line: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["config", str(ROOT / "dizoo" / file), "--diff"])
    lines = capsys.readouterr().out.splitlines()
    assert line in lines
    keys = {line.partition("=")[0] for line in lines}
    assert keys.isdisjoint({"policy.other.replay_buffer.type", "policy.model.obs_shape", "policy.model.action_shape"})


def test_the_compiled_config_takes_the_words_of_a_run(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    main(["config", str(CONFIG), "policy=mdqn", "max_env_step=1e3"])
    (tmp_path / "printed.py").write_text(capsys.readouterr().out)
    saved = read_saved_run(tmp_path / "printed.py")
    assert (saved.create_config["policy"]["type"], saved.limits) == ("mdqn", {"max_env_step": 1000})
    main(["config", str(CONFIG), "--diff", "max_env_step=1e3"])
    assert capsys.readouterr().out.splitlines()[-1] == "max_env_step=1000"


MEETING = """
import gymnasium
from gymnasium.spaces import Box, Dict, MultiDiscrete


class Meeting(gymnasium.Env):
    observation_space, action_space = Dict(agent_state=Box(-1, 1, (2, 4))), MultiDiscrete([3, 3])

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


gymnasium.register("Meeting-v0", Meeting, max_episode_steps=5)
"""


@pytest.mark.parametrize("algorithm", [None, "dqn", "discrete_sac", "mappo"])
def test_a_starter_config_plays_for_all_agents_of_an_environment(algorithm: str | None, tmp_path: Path) -> None:
    (tmp_path / "meeting.py").write_text(MEETING)
    main(["new", "meeting:Meeting-v0", *([algorithm] if algorithm else []), "-o", "own.py"])
    words = ["policy.learn.batch_size=8", "policy.collect.n_sample=16", "max_env_step=16", "max_train_iter=2"]
    if algorithm in ("dqn", "discrete_sac"):
        words.append("policy.random_collect_size=0")
    main(["train", "-c", "own.py", *words])
    assert compile_config("own.py").policy.multi_agent


def test_a_game_of_several_agents_needs_no_module() -> None:
    main(["new", "TwoStep-v0", "qmix", "-o", "own.py"])
    main(["train", "-c", "own.py", "max_env_step=80", "policy.learn.update_per_collect=1"])
    assert compile_config("own.py").env.type == "matrix_game"


@pytest.mark.parametrize("algorithm", ["recurrent_sac", "recurrent_td3"])
def test_sizes_that_count_sequences_are_not_those_of_steps(algorithm: str, tmp_path: Path) -> None:
    cfg = compile_config(str(write_starter("Pendulum-v1", algorithm, str(tmp_path / "starter.py"))))
    assert cfg.policy.random_collect_size * cfg.policy.unroll_len == 64 * 16  # env steps; VECTORS has 1000 of them
    assert cfg.policy.other.replay_buffer.replay_buffer_size * cfg.policy.unroll_len == 6000 * 16


def test_an_environment_with_goals_gets_replay_in_hindsight() -> None:
    gymnasium.register("tests/GoalLine-v0", "tests.goals.line:Line")
    bits = {"cfg_env": EasyDict(n_bits=4)}
    gymnasium.register("tests/BitFlip-v0", "dizoo.bitflip.envs.bitflip_env:BitFlipEnv", kwargs=bits)
    for env_id, algorithm, nstep in (("tests/GoalLine-v0", "sac", 1), ("tests/BitFlip-v0", "dqn", 1)):
        path = write_starter(env_id)
        cfg = compile_config(path)
        assert (cfg.policy.type, cfg.policy.other.replay_buffer.type, cfg.notes) == (algorithm, "her", [])
        assert cfg.policy.get("nstep", 1) == nstep
        words = ["policy.random_collect_size=0", "env.n_evaluator_episode=8", "policy.learn.update_per_collect=1"]
        assert serial_pipeline(str(path), seed=0, max_train_iter=2, overrides=words).iteration >= 2
    assert compile_config(write_starter("tests/GoalLine-v0", "ppo")).policy.type == "ppo"
