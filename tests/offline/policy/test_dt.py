"""Decision Transformer: what a prediction depends on, the loss, and playing step by step."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from ding_lite.config import compile_config
from ding_lite.entry import collect_demo_data
from ding_lite.offline.policy.dt import DTPolicy
from ding_lite.run.setup import prepare_run
from ding_lite.utils.key import set_key
from ding_lite.utils.registry import ConfigError
from tests.policy.helpers import build_policy

K, OBS = 4, 3


def make_dt(*overrides: str, space: str = "discrete", **policy: Any) -> Any:
    """Build a small policy of two actions or dimensions; overrides without their `policy.`."""
    network = dict(obs_shape=OBS, action_shape=2, action_space=space, h_dim=16, n_heads=2, n_blocks=2)
    keys = (f"context_len={K}", "rtg_scale=10.0", *overrides)
    torch.manual_seed(0)
    return build_policy("dt", network, *keys, **policy)


def make_batch(size: int, space: str) -> dict[str, Tensor]:
    gen = torch.Generator().manual_seed(0)
    batch = {
        "obs": torch.randn(size, K, OBS, generator=gen),
        "rtg": torch.randn(size, K, generator=gen),
        "timestep": torch.arange(K).expand(size, K),
        "valid": torch.ones(size, K).bool(),
    }
    discrete, continuous = torch.randint(2, (size, K), generator=gen), torch.rand(size, K, 2, generator=gen) * 2 - 1
    return batch | {"action": discrete if space == "discrete" else continuous}


def predict(policy: Any, batch: dict[str, Tensor]) -> Tensor:
    inputs = {key: batch[key] for key in ("obs", "action", "rtg", "timestep", "valid")}
    output = policy.model(**inputs)
    return output["logit" if policy.model.discrete else "action"].detach()


@pytest.mark.parametrize("space", ["discrete", "continuous"])
def test_an_action_is_predicted_from_all_that_came_before_it_alone(space: str) -> None:
    policy, batch = make_dt(space=space), make_batch(1, space)
    before = predict(policy, batch)
    # A change of step 2 changes the predictions of these steps: those of its action only what follows it.
    for key, first in (("obs", 2), ("rtg", 2), ("timestep", 2), ("action", 3)):
        column = batch[key].clone()
        column[0, 2] = 1 - column[0, 2] if key == "action" else column[0, 2] + 1
        moved = (predict(policy, batch | {key: column}) != before).any(-1)[0]
        assert moved.tolist() == [step >= first for step in range(K)], key
    hidden = batch | {"valid": torch.tensor([[False, False, True, True]])}
    seen = predict(policy, hidden)
    changed = {key: column.clone() for key, column in hidden.items()}
    changed["obs"][0, :2], changed["rtg"][0, :2] = 7.0, -7.0
    assert torch.equal(predict(policy, changed)[0, 2:], seen[0, 2:])
    assert not torch.equal(seen[0, 2:], before[0, 2:])


@pytest.mark.parametrize("space", ["discrete", "continuous"])
def test_the_loss_is_the_mean_over_the_steps_of_trajectories(space: str) -> None:
    policy, batch = make_dt("model.drop_p=0.0", space=space), make_batch(3, space)
    batch["valid"] = torch.tensor([[True] * 4, [True, True, False, False], [True, False, False, False]])
    output = predict(policy, batch | {"rtg": batch["rtg"] / 10})
    expected, distances = list[float](), list[float]()  # of the seven valid steps
    for b, k in batch["valid"].nonzero().tolist():
        action = batch["action"][b, k]
        hit = float(output[b, k].argmax() == action) if space == "discrete" else 0.0
        distances.append(hit if space == "discrete" else (output[b, k] - action).abs().mean().item())
        error = (
            (output[b, k] - action).square().mean() if space == "continuous" else -output[b, k].log_softmax(-1)[action]
        )
        expected.append(error.item())
    loss, figures = policy.loss(batch)
    assert loss.item() == pytest.approx(np.mean(expected), rel=1e-5)
    (figure,) = figures.values()
    assert figure.item() == pytest.approx(np.mean(distances), rel=1e-5)


def test_dropout_is_drawn_with_the_batch_and_none_is_left_in_evaluations() -> None:
    policy, batch = make_dt("model.drop_p=0.5"), make_batch(64, "discrete")
    ready = policy._prepare(batch)
    noise = policy._draw_noise(ready)
    assert noise["dropout"].shape == (64, 2, 2, 3 * K, 16)
    losses = [policy.loss(batch | {"noise": each})[0].item() for each in (noise, noise, policy._draw_noise(ready))]
    assert losses[0] == losses[1] != losses[2]
    kept = policy.model(batch["obs"], *(ready[key] for key in ("action", "rtg", "timestep", "valid")),
                        noise=torch.ones_like(noise["dropout"]))["logit"]  # fmt: skip
    assert not torch.allclose(kept, predict(policy, ready))  # what is kept counts double
    assert torch.equal(policy.act(batch["obs"][:, 0].numpy(), False)["action"],
                       policy.act(batch["obs"][:, 0].numpy(), True)["action"])  # fmt: skip


@pytest.mark.parametrize("space", ["discrete", "continuous"])
def test_it_plays_as_the_model_predicts_and_asks_for_what_is_left(space: str) -> None:
    policy = make_dt("rtg_target=20.0", space=space)
    rng = np.random.default_rng(0)
    steps: list[list[dict[str, Any]]] = [[], []]  # of the running episode of each environment
    left = [20.0, 20.0]
    policy.reset(explore=False)
    for number in range(7):
        obs, reward = rng.normal(size=(2, OBS)).astype(np.float32), rng.normal(size=2) * 3
        action = policy.act(obs, explore=False)["action"]
        for n in range(2):
            steps[n].append({"obs": torch.from_numpy(obs[n]), "rtg": torch.tensor(left[n] / 10, dtype=torch.float32)})
            steps[n][-1] |= {"timestep": torch.tensor(len(steps[n]) - 1), "valid": torch.tensor(True)}
            steps[n][-1]["action"] = torch.zeros_like(action[n])
            rows = steps[n][-K:]
            batch = {key: torch.stack([row[key] for row in rows])[None] for key in rows[0]}
            output = predict(policy, batch)[0, -1]
            expected = output.argmax(-1) if space == "discrete" else output
            torch.testing.assert_close(action[n], expected)
            steps[n][-1]["action"] = action[n]
            left[n] -= reward[n]
        policy.see_reward(reward, explore=False)
        if number == 2:  # the second environment begins a new episode
            policy.reset(np.array([1]), explore=False)
            steps[1], left[1] = [], 20.0


def test_what_it_asks_for_falls_by_the_true_rewards_whatever_wrappers_make_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In an evaluation and in a recording, whose rewards are those that a later run computes returns-to-go from."""
    seen: list[float] = []
    see = DTPolicy.see_reward

    def note(policy: DTPolicy, reward: np.ndarray, explore: bool = True) -> None:
        seen.append(float(reward.sum()))
        see(policy, reward, explore)

    monkeypatch.setattr(DTPolicy, "see_reward", note)
    env = dict(env_id="CartPole-v1", max_episode_steps=30, collector_env_num=1, evaluator_env_num=1)
    env |= dict(n_evaluator_episode=1, wrappers=[dict(name="ClipReward", max_reward=0.25)])
    pair = dict(exp_name=str(tmp_path / "run"), env=env), dict(policy=dict(type="dt"))
    setup = prepare_run(pair, 0)
    policy = setup.create_policy(("eval",))
    with ExitStack() as stack:
        (value,) = setup.create_evaluator(policy, lambda: False, lambda *_: None, stack).eval(0)[1]["returns"]
    assert sum(seen) == value == len(seen) > 1
    seen.clear()
    collect_demo_data(pair, 0, 1, str(tmp_path / "data.npz"), model=policy.model, collect_episodes=True)
    with np.load(tmp_path / "data.npz") as data:
        assert data["reward"].tolist() == seen == [1.0] * len(seen)


@pytest.mark.parametrize("path", ["policy.collect.reward_norm", "env.reward_norm"])
def test_rewards_are_not_normalised_so_that_the_target_keeps_its_units(path: str) -> None:
    main: dict[str, Any] = dict(env=dict(env_id="CartPole-v1"))
    set_key(main, path, "iql_locomotion")
    cfg = compile_config((main, dict(policy=dict(type="dt"))))
    assert "reward_norm" not in cfg.policy.collect
    assert f"{path} is ignored: returns are in the environment's units, as policy.rtg_target is." in cfg.notes


def test_heads_must_share_the_features_of_a_token() -> None:
    with pytest.raises(ConfigError, match=r"policy\.model\.h_dim=16: expected a multiple of n_heads=3"):
        make_dt("model.n_heads=3")
