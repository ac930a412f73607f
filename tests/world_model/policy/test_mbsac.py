"""MBSAC: lambda returns by hand, terminal steps, SAC as its case without a model, the gradient through the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from ding_lite.entry import serial_pipeline_dream
from ding_lite.torch_utils.networks import checksum_networks
from ding_lite.utils import ConfigError
from tests.policy.continuous.helpers import make_batch, make_qac
from tests.run.helpers import result
from tests.survival.common import differences
from tests.world_model.helpers import pair, trained
from tests.world_model.test_mbpo import constant
from tests.world_model.test_serial_entry_mbrl import last_state

ALPHA, GAMMA, LAMBDA = 0.2, 0.9, 0.6
KEYS = (
    *("policy.learn.auto_alpha=False", f"policy.learn.alpha={ALPHA}", f"policy.discount_factor={GAMMA}"),
    *(f"policy.learn.lambda_={LAMBDA}", "world_model.rollout_length_scheduler.rollout_length=2"),
)


def policy_and_batch(*words: str, kind: str = "mbsac") -> tuple[Any, dict[str, Any]]:
    """Return a policy whose model's members predict rewards of 1, 2 and 3 and no change, and a batch without noise."""
    model = constant(trained(*KEYS, *words, kind=kind), 1.0, 2.0, 3.0)
    policy, obs = model._policy, torch.tensor([[0.1, 3.0], [2.0, 3.0]])  # the second is beyond the edge
    batch = {"obs": obs - 0.1, "action": torch.tensor([[0.5], [-0.5]]), "reward": torch.tensor([5.0, 7.0])}
    batch |= {"next_obs": obs, "done": torch.tensor([False, False]), "value_gamma": torch.full((2,), GAMMA)}
    noise = {key: torch.zeros_like(part) for key, part in policy._draw_noise(batch).items()}
    return policy, batch | {"noise": noise}


def state_values(policy: Any, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return V and alpha log pi of the actions without noise; log N(mu) = -log sigma - log(2 pi) / 2."""
    with torch.no_grad():
        logit = policy.model.actor(obs)
        action = logit["mu"].tanh()
        logp = -logit["sigma"].log() - 0.9189385 - (1 - action.square()).log()
        entropy = ALPHA * logp.squeeze(1)
        return policy._target_critic(obs, action=action).amin(0) - entropy, entropy


def test_lambda_returns_by_hand() -> None:
    """All members predict a reward of 1 and stay where they are: V and the entropy are those of s' at every step."""
    policy, batch = policy_and_batch()
    constant(policy.world_model, 1.0, 1.0, 1.0)
    (v, beyond), (entropy, entropy_beyond) = (part.tolist() for part in state_values(policy, batch["next_obs"]))
    y1 = 1 + GAMMA * v  # V_2 and W_2 are the same
    y0 = 1 + GAMMA * ((1 - LAMBDA) * v + LAMBDA * (y1 - entropy))
    real = 5 + GAMMA * ((1 - LAMBDA) * v + LAMBDA * (y0 - entropy))
    real_beyond = 7 + GAMMA * ((1 - LAMBDA) * beyond + LAMBDA * (1 - entropy_beyond))  # the next step is terminal
    path = policy.expansion.find_path(policy, batch)
    torch.testing.assert_close(path.target[:, 0], torch.tensor([real, y0, y1]))
    torch.testing.assert_close(path.value[:, 0], torch.tensor([real, y0 - entropy, y1 - entropy]))
    torch.testing.assert_close(path.target[:2, 1], torch.tensor([real_beyond, 1.0]))
    assert path.weight.tolist() == [[1, 1], [1, 1], [1, 0]]  # nothing is learned of steps after a terminal one
    torch.testing.assert_close(path.log_prob[0].item(), entropy / ALPHA)
    with torch.no_grad():
        q_C3 = policy.model.critic(path.obs[:, 0], action=path.action[:, 0])
        q_C2 = policy.model.critic(path.obs[:2, 1], action=path.action[:2, 1])
    errors = (path.target[:, 0] - q_C3).square().sum() + (path.target[:2, 1] - q_C2).square().sum()
    torch.testing.assert_close(policy._critic_loss(batch)[0], errors / 6)  # two samples of three steps
    expected = -(path.value[:, 0].sum() + path.value[:2, 1].sum()) / 6
    torch.testing.assert_close(policy._actor_loss(batch)[0], expected)


def test_it_may_begin_in_states_of_replay() -> None:
    policy, batch = policy_and_batch("policy.learn.sample_state=True")
    path = policy.expansion.find_path(policy, batch)
    assert torch.equal(path.obs[0], batch["obs"])
    assert path.target.shape == (2, 2)
    assert path.target[-1, 0].item() == pytest.approx(
        2 + GAMMA * state_values(policy, batch["obs"])[0][0].item(), abs=1.01
    )  # a member that predicts 1, 2 or 3 was drawn


def test_without_a_model_and_lambda_the_critics_loss_is_that_of_sac() -> None:
    torch.manual_seed(0)
    sac, batch = make_qac("sac"), make_batch(8)
    own = make_qac("mbsac", "learn.lambda_=0.0", model=sac.model)
    own._target_critic.load_state_dict(sac._target_critic.state_dict())
    noise = torch.randn(8, batch["action"].shape[1])
    one, _ = sac._critic_loss(batch | {"noise": {"next": noise}})
    other, _ = own._critic_loss(batch | {"noise": {"actor": noise[:, None], "member": torch.zeros(8, 1)}})
    torch.testing.assert_close(one, other)


def test_the_actors_gradient_passes_through_the_model() -> None:
    """The slope of the loss along its gradient is the gradient's norm; without the model's part it would not be."""
    model = trained(*KEYS, kind="mbsac")
    policy = model._policy
    batch = policy._to_device(policy._prepare(next(model._replay.batches(20, 1))))
    batch |= {"noise": policy._draw_noise(batch)}
    parameters = list(policy.model.actor.parameters())
    gradients = torch.autograd.grad(policy._actor_loss(batch)[0], parameters)
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    losses, size = [], 3e-3
    for sign in (1, -2):
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.data += sign * size * gradient / norm
        losses.append(policy._actor_loss(batch)[0].item())
    assert (losses[0] - losses[1]) / (2 * size) == pytest.approx(norm.item(), rel=0.03)


@pytest.mark.parametrize("kind", ["mbsac", "stevesac"])
def test_learning_changes_the_policy_and_not_the_model(kind: str) -> None:
    model = trained(*KEYS, kind=kind)
    before, acting = checksum_networks(model.networks), checksum_networks([model._policy.model])
    model._policy.learn(next(model._replay.batches(20, 1)))
    assert checksum_networks(model.networks) == before
    assert checksum_networks([model._policy.model]) != acting


@pytest.mark.parametrize("kind", ["mbsac", "stevesac"])
def test_a_run_that_is_stopped_and_resumed_equals_the_whole_run(kind: str) -> None:
    words = ["policy.eval.evaluator.eval_freq=2", "world_model.rollout_length_scheduler.rollout_length=2"]
    for name, steps, more in (("whole", 120, []), ("parts", 88, []), ("parts", 120, ["resume_training=True"])):
        overrides = [*words, f"exp_name={name}", *(f"policy.learn.{word}" for word in more)]
        serial_pipeline_dream(pair(kind), seed=0, max_env_step=steps, overrides=overrides)
    assert result(Path("parts"))["envstep"] == 120
    assert not differences(last_state("whole"), last_state("parts"))


def test_what_it_cannot_do_is_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^env.norm_obs=True does not work with policy 'mbsac'"):
        serial_pipeline_dream(pair("mbsac"), seed=0, overrides=["env.norm_obs=True"])
    with pytest.raises(ConfigError, match=r"^policy.learn.sample_state=True needs imagined steps"):
        make_qac("mbsac", "learn.sample_state=True")
