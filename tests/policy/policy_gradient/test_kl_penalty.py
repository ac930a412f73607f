"""PPO close to a pretrained policy: the penalty by hand, where its logits come from, and mistakes in its keys."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium.spaces import Box

from ding_lite.config import compile_config
from ding_lite.model import VAC
from ding_lite.policy.policy_gradient.actor_critic import flatten_rows
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.utils import CheckpointError, ConfigError, save_checkpoint
from ding_lite.utils.tree import tree_map
from ding_lite.worker import UniformReplayBuffer
from tests.policy.actors import OBS, SHAPES, Table, learn, make_actor, make_block
from tests.policy.helpers import parameter_hash

LN = math.log
BETA = 0.5


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The checkpoint of a policy with other parameters than those of the tests."""
    torch.manual_seed(7)
    save_checkpoint(str(tmp_path / "pretrained.pth.tar"), {"policy": make_actor("ppo").state_dict()})
    return str(tmp_path / "pretrained.pth.tar")


def close_to(path: str, *overrides: str, kind: str = "ppo", **options: Any) -> Any:
    torch.manual_seed(0)
    own = [f"learn.pretrained_model_path={path}", f"learn.kl_beta={BETA}", *overrides]
    return make_actor(kind, *own, **options)


# pi_new is 3/4, 1/4 in both states. Actions 0 and 1 were chosen; pi_pretrained is 1/2, 1/2 in state 0 and 7/8, 1/8 in
# state 1: the logarithms of the ratios are ln 3/2 and ln 2.
@pytest.mark.parametrize(
    ("kl_type", "values"),
    [
        ("k1", (LN(1.5), LN(2))),
        ("k2", (LN(1.5) ** 2 / 2, LN(2) ** 2 / 2)),
        ("k3", (2 / 3 - 1 + LN(1.5), 1 / 2 - 1 + LN(2))),
    ],
)
def test_the_penalty_by_hand(kl_type: str, values: tuple[float, float]) -> None:
    overrides = (f"learn.kl_beta={BETA}", f"learn.kl_type={kl_type}")
    policy = make_actor("ppo", *overrides, model=Table([[LN(0.75), LN(0.25)]] * 2, [1.0, -1.0]))
    batch: dict[str, Any] = {
        "obs": torch.eye(2),
        "action": torch.tensor([0, 1]),
        "logit": torch.tensor([[LN(0.75), LN(0.25)]] * 2),  # pi_old is pi_new: its KL is 0
        **{key: torch.tensor([1.0, -1.0]) for key in ("adv", "value", "return_")},
    }
    _, plain = policy.loss(batch)
    assert plain["kl"].item() == pytest.approx(0, abs=1e-6)
    assert "kl_div" not in plain
    pretrained = torch.tensor([[0.0, 0.0], [LN(7), 0.0]])
    for weight in ((1.0, 1.0), (0.5, 1.5)):
        batch["weight"] = torch.tensor(weight)
        base, _ = policy.loss(batch)
        loss, figures = policy.loss(batch | {"logit_pretrained": pretrained})
        expected = (weight[0] * values[0] + weight[1] * values[1]) / 2
        assert figures["kl_div"].item() == pytest.approx(expected, rel=1e-5)
        assert (loss - base).item() == pytest.approx(BETA * expected, rel=1e-4)
        assert "kl" not in figures  # kl_beta does not weigh the old policy's too


@pytest.mark.parametrize("space", SHAPES)
def test_the_logits_of_the_pretrained_policy_are_collected_and_learned_from(space: str, tmp_path: Path) -> None:
    path = str(tmp_path / "pretrained.pth.tar")
    torch.manual_seed(7)
    pretrained = make_actor("ppo", space=space)
    save_checkpoint(path, {"policy": pretrained.state_dict()})
    policy, plain = close_to(path, space=space), make_actor("ppo", f"learn.kl_beta={BETA}", space=space)
    fixed = parameter_hash(policy._pretrained)
    block = make_block(policy)
    expected = pretrained._run(pretrained.model, block["obs"].flatten(0, 1))["logit"]
    torch.testing.assert_close(flatten_rows(block["logit_pretrained"]), tree_map(torch.detach, expected))
    assert fixed == parameter_hash(pretrained.model)
    outputs = learn(policy, block)
    assert all(output["kl_div"].isfinite() and "kl" not in output for output in outputs)
    assert parameter_hash(policy._pretrained) == fixed
    assert "logit_pretrained" not in make_block(plain)


@pytest.mark.parametrize("target", [None, 1e6])
def test_divergences_are_kept_only_if_something_is_decided_by_them(target: float | None) -> None:
    own = [] if target is None else [f"learn.target_kl={target}", "learn.kl_early_stop=True"]
    policy = make_actor("ppo", f"learn.kl_beta={BETA}", *own)
    outputs = learn(policy, make_block(policy))
    assert all("kl" in output for output in outputs)
    assert len(policy._penalty._seen) == (0 if target is None else len(outputs))


def test_replay_has_the_logits_too(path: str) -> None:
    policy = close_to(path, kind="ppo_offpolicy")
    replay = UniformReplayBuffer(40, num_envs=4)
    replay.push(policy.to_samples(make_block(policy)))
    (batch,) = replay.batches(16, 1)
    expected = policy._run(policy._pretrained, batch["obs"])["logit"]
    torch.testing.assert_close(batch["logit_pretrained"], expected)
    assert policy.learn(batch)["kl_div"].isfinite()


def test_a_checkpoint_that_does_not_fit_is_one_clear_line(path: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not have this policy's model: size mismatch"):
        close_to(path, model=VAC(OBS, 2, encoder_hidden_size_list=[16, 8]))
    other = str(tmp_path / "other.pth.tar")
    save_checkpoint(other, {"learner": {}})
    with pytest.raises(ConfigError, match="does not have this policy's model: 'policy'"):
        close_to(other)
    with pytest.raises(CheckpointError, match="Cannot read checkpoint"):
        close_to(str(tmp_path / "missing.pth.tar"))


def test_the_pretrained_policy_sees_the_observations_that_it_learned_from_or_none(path: str, tmp_path: Path) -> None:
    main = dict(env=dict(norm_obs=True), policy=dict(learn=dict(kl_beta=BETA, pretrained_model_path=path)))
    with pytest.raises(ConfigError, match=r"is not possible with env\.norm_obs=True"):
        compile_config((main, dict(env=dict(env_id="CartPole-v1"), policy=dict(type="ppo"))))
    pretrained = make_actor("ppo")
    pretrained.normalizer = Normalizer(Box(-1, 1, (OBS,)), None)
    normal = str(tmp_path / "normal.pth.tar")
    save_checkpoint(normal, {"policy": pretrained.state_dict()})
    with pytest.raises(ConfigError, match="learned from normalised observations"):
        close_to(normal)
