"""What only the critic sees: the actor's output does not depend on it, and actor-critics learn from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict
from torch import Tensor, nn

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.model import MLP
from ding_lite.utils.registry import ENCODER_REGISTRY, ENV_REGISTRY, MODEL_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_leaves, tree_map
from tests.policy.actors import SHAPES
from tests.run.helpers import metrics, result
from tests.toys import Toy

SHAPE: dict[str, Any] = {"seen": 4, "body": {"speed": 2, "mass": 3}}
REPARAMETERIZED = dict(action_shape=2, action_space="reparameterization")
MODELS: dict[str, dict[str, Any]] = {
    "vac": dict(action_shape=3, share_encoder=False),
    "ppg": dict(action_shape=3),
    "continuous_qac": dict(action_shape=2, action_space="regression", twin_critic=True),
    "continuous_qvac": REPARAMETERIZED,
    "qac_ensemble": REPARAMETERIZED,
    "qac_quantile": REPARAMETERIZED,
    "qac_dist": dict(action_shape=2),
    "discrete_qac": dict(action_shape=3),
    "acer": dict(action_shape=3),
    "hybrid_qac": dict(action_shape=SHAPES["hybrid"]),
    "edac": REPARAMETERIZED,
}
OF_PAIRS = ("continuous_qac", "continuous_qvac", "qac_ensemble", "qac_quantile", "qac_dist", "hybrid_qac", "edac")


def draw(size: int = 5) -> dict[str, Any]:
    return tree_map(lambda length: torch.randn(size, length), SHAPE)


def critics(name: str, model: Any, obs: Any) -> list[Tensor]:
    """Return all that the model's critics say of observations `[5, ...]` and of one action."""
    action: Any = torch.full((5, 2), 0.5)
    pair = {
        "obs": obs,
        "logit": torch.zeros(5, 3),
        "action": {"action_args": action} if name == "hybrid_qac" else action,
    }
    values = [model(pair if name in OF_PAIRS else obs, mode="compute_critic")]
    return list(tree_leaves(values[0])) + ([model(obs, mode="compute_value")["v_value"]] if "qvac" in name else [])


@pytest.mark.parametrize("layers", [None, [16, 8]])
@pytest.mark.parametrize("name", MODELS)
def test_the_critic_alone_sees_the_hidden_parts(name: str, layers: list[int] | None) -> None:
    torch.manual_seed(0)
    model = MODEL_REGISTRY.find(name)(
        obs_shape=SHAPE, critic_obs=["body.mass"], encoder_hidden_size_list=layers, **MODELS[name]
    )
    obs = draw()
    other = {"seen": obs["seen"], "body": {"speed": obs["body"]["speed"], "mass": torch.randn(5, 3)}}
    less = {"seen": obs["seen"], "body": {"speed": obs["body"]["speed"]}}  # the actor does not miss what it cannot see
    actions = [list(tree_leaves(model(each, mode="compute_actor"))) for each in (obs, other, less)]
    for one, two, three in zip(*actions, strict=True):
        assert torch.equal(one, two)
        assert torch.equal(one, three)
    obs["body"]["mass"].requires_grad_()
    values = critics(name, model, obs)
    assert not any(torch.equal(one, two) for one, two in zip(values, critics(name, model, other), strict=True))
    for value in values:
        total = (value * torch.randn_like(value)).sum()
        assert torch.autograd.grad(total, obs["body"]["mass"], retain_graph=True)[0].any()


def test_a_recurrent_actor_remembers_nothing_of_what_is_hidden() -> None:
    for name, keys in (("vac", {"lstm_type": "lstm"}), ("vac", {"memory": "gtrxl"}), ("recurrent_qac", {})):
        options = MODELS["continuous_qac" if name == "recurrent_qac" else name] | keys
        model = MODEL_REGISTRY.find(name)(
            obs_shape=SHAPE, critic_obs=["body"], encoder_hidden_size_list=[16, 8], **options
        )
        rows = tree_map(lambda leaf: leaf.view(4, 5, -1), draw(20))
        key = "logit" if name == "vac" else "action"
        bodies = (rows["body"], tree_map(torch.randn_like, rows["body"]))
        one, two = (model({**rows, "body": body}, mode="compute_actor")[key] for body in bodies)
        assert torch.equal(one, two)


def test_a_mask_reaches_the_actor_and_an_own_encoder_gets_what_is_left() -> None:
    shape = SHAPE | {"action_mask": 3}
    model = MODEL_REGISTRY.find("vac")(shape, 3, share_encoder=False, critic_obs=["body"])
    assert isinstance(model.actor_encoder.encoder, MLP)  # a single part gets the encoder of its shape
    mask = torch.tensor([[1, 0, 1]]).expand(5, 3)
    output = model(draw() | {"action_mask": mask})
    assert torch.equal(output["logit"].isneginf(), mask == 0)

    class Sum(nn.Module):
        """Adds up whatever it is given."""

        def __init__(self, obs_shape: Any, hidden_size_list: list[int], activation: Any) -> None:
            super().__init__()
            self.layer, self.keys = nn.Linear(1, hidden_size_list[-1]), list(obs_shape)

        def forward(self, obs: dict[str, Any]) -> Tensor:
            assert list(obs) == self.keys
            return self.layer(sum(leaf.sum(-1, keepdim=True) for leaf in tree_leaves(obs)))

    ENCODER_REGISTRY["sum"] = Sum
    try:
        model = MODEL_REGISTRY.find("vac")(shape, 3, share_encoder=False, critic_obs=["body.mass"], encoder="sum")
        assert (model.actor_encoder.encoder.keys, model.critic_encoder.encoder.keys) == (["seen", "body"],) * 2
        obs = draw() | {"action_mask": mask}
        features = model.actor_encoder.encoder.layer(obs["seen"].sum(-1, True) + obs["body"]["speed"].sum(-1, True))
        torch.testing.assert_close(model.actor_encoder(obs), features)
    finally:
        del ENCODER_REGISTRY["sum"]


@pytest.mark.parametrize(
    ("hidden", "shape", "message"),
    [
        (["seen"], 4, r"critic_obs=\['seen'\]: expected observations that are a Dict, got shape 4"),
        (
            ["body.mas"],
            SHAPE,
            "no part 'body.mas' that could be hidden, only seen, body.speed, body.mass. Did you mean",
        ),
        (["action_mask"], SHAPE | {"action_mask": 3}, "no part 'action_mask' that could be hidden"),
        (["seen", "body"], SHAPE | {"action_mask": 3}, "these are all parts of the observations: leave one out"),
    ],
)
def test_what_cannot_be_hidden_is_one_line(hidden: list[str], shape: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^policy.model.[^\n]*{message}[^\n]*$"):
        MODEL_REGISTRY.find("discrete_qac")(shape, 3, critic_obs=hidden)


class Luck(Toy):
    """One step an episode: the return is the luck, 5 or -5 in turns, less the distance between action and target."""

    observation_space = Dict(target=Box(-1, 1, (1,)), luck=Box(-5, 5, (1,)))
    action_space = Box(-1, 1, (1,))
    luck = 5.0

    def begin(self) -> None:
        self.luck, self.target = -self.luck, self.np_random.uniform(-0.8, 0.8, 1).astype(np.float32)

    def observe(self) -> Any:
        return {"target": self.target, "luck": np.full(1, self.luck, np.float32)}

    def play(self, action: Any) -> Any:
        return self.luck - float(np.abs(action - self.target).sum()), True


SMALL = "policy.model.actor_head_hidden_size=32 policy.model.critic_head_hidden_size=32"
QUICK = f"{SMALL} policy.random_collect_size=200 policy.learn.batch_size=64 policy.learn.target_theta=0.05"
LEARNERS = {
    "ppo": "policy.model.encoder_hidden_size_list=[32,32] policy.model.share_encoder=False env.norm_obs=True "
    "policy.collect.n_sample=256 policy.learn.epoch_per_collect=4 policy.learn.learning_rate=0.003",
    "sac": f"{QUICK} policy.learn.learning_rate_q=3e-3 policy.learn.learning_rate_policy=3e-3 "
    "policy.learn.auto_alpha=False policy.learn.alpha=0.01 env.norm_obs=True",
    "td3": f"{QUICK} policy.learn.learning_rate_actor=3e-3 policy.learn.learning_rate_critic=3e-3",
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_task_is_learned_whose_value_the_critic_alone_can_know(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ENV_REGISTRY, "luck", Luck)
    # 6 episodes in each of 8 environments, so that all luck is even; random play is worth -0.6
    env = dict(n_evaluator_episode=48, stop_value=-0.15)
    policy: dict[str, Any] = dict(num_threads=1, model=dict(critic_obs=["luck"]))
    policy["eval"] = dict(evaluator=dict(eval_freq=20 if name == "ppo" else 100))
    policy["learn"] = dict(learner=dict(hook=dict(log_show_after_iter=10)))
    create = dict(env=dict(type="luck"), policy=dict(type=name))
    pipeline = serial_pipeline_onpolicy if name == "ppo" else serial_pipeline
    words = [f"exp_name={tmp_path}/run", *LEARNERS[name].split()]
    trained = pipeline((dict(env=env, policy=policy), create), seed=0, max_env_step=30_000, overrides=words)
    lines = metrics(tmp_path / "run")
    assert result(tmp_path / "run")["stop_reason"] == "stop_value", lines
    if name == "ppo":  # the variance of the luck is 25, that of all else below 1
        assert [line for line in lines if "train/explained_variance" in line][-1]["train/explained_variance"] > 0.9
    target = np.array([[0.3]], np.float32)
    actions = [
        trained.act({"target": target, "luck": np.array([[luck]])}, explore=False)["action"] for luck in (-5.0, 5.0)
    ]
    assert torch.equal(*actions)
