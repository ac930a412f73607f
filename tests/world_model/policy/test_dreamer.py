"""DreamerV3: its losses against NumPy, which step's reward and action belongs where, what it imagines, how it acts."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Dict

from ding_lite.entry import serial_pipeline
from ding_lite.envs import create_vector_env
from ding_lite.utils import load_checkpoint
from ding_lite.utils.registry import ENV_REGISTRY
from ding_lite.utils.tree import tree_map
from ding_lite.worker import SampleCollector
from ding_lite.world_model.model.dreamer import Dreamer, parts_of
from ding_lite.world_model.policy.dreamer import arrivals
from tests.algorithms import policy_keys, row
from tests.distributed import parity
from tests.policy.test_sequences import build, collect
from tests.run.helpers import metrics, result
from tests.survival.common import differences
from tests.toys import Toy

N, T, L, GAMMA, LAMBDA = 3, 4, 3, 0.9, 0.75
WORDS = [*policy_keys(row("dreamer").short), f"policy.discount_factor={GAMMA}", f"policy.learn.lambda_={LAMBDA}"]


def played(*overrides: str, kind: str = "discrete", steps: int = 20) -> tuple[Any, dict[str, Any]]:
    """Return a policy whose networks are far from their beginnings, and a batch with ends of both kinds, with noise."""
    cfg, policy = build("dreamer", *WORDS, *overrides, kind=kind)
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter.add_(0.5 * torch.randn_like(parameter))
    batch = parity.replay_everything(cfg, collect(cfg, policy, steps, N), N)
    return policy, policy._ready(batch)


def world_output(policy: Any, batch: dict[str, Any]) -> dict[str, Any]:
    final = {"obs": batch["final_obs"], "index": batch["final_index"], "action": batch["action"]}
    rows = {"prev_action": batch["prev_action"], "episode_start": batch["episode_start"]}
    output = policy.model.world(batch["obs"], **rows, noise=batch["noise"]["rows"], final=final)
    return tree_map(lambda leaf: leaf.detach().numpy(), output)


def two_hot(target: float, bins: int = 255) -> np.ndarray:
    place = np.sign(target) * np.log1p(abs(target))
    return np.array([np.interp(place, np.linspace(-20, 20, bins), line) for line in np.eye(bins)])


def log_softmax(x: np.ndarray) -> np.ndarray:
    return x - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)) - x.max(-1, keepdims=True)


def read(logit: np.ndarray) -> np.ndarray:
    """Return the numbers that two-hot logits predict."""
    mean = (np.exp(log_softmax(logit)) * np.linspace(-20, 20, 255)).sum(-1)
    return np.sign(mean) * np.expm1(abs(mean))


def test_reward_and_end_belong_to_the_state_that_follows_and_a_time_limit_is_no_end() -> None:
    """An episode of two steps is truncated, one of one step terminated, both in row 1; a life is lost in row 2."""
    batch = {
        "reward": torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]]),
        "done": torch.tensor([[False, False], [False, True], [True, False], [False, False]]),
        "episode_start": torch.tensor([[True, False], [False, True], [True, True], [False, False]]),
        "final_index": torch.tensor([1, 2, 3]),  # places t * 2 + b: of rows (0, 1), (1, 0) and (1, 1)
    }
    reward_M, done_M, known_M = (column.tolist() for column in arrivals(batch, torch.float64))
    of_rows = [0, 0, 1, 0, 0, 0, 5, 6]  # r_{t-1}; not of first rows of episodes or of the sequence
    assert [reward * known for reward, known in zip(reward_M, known_M, strict=True)] == [*of_rows, 2, 3, 4]
    assert known_M == [0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 1]
    assert [done * known for done, known in zip(done_M, known_M, strict=True)] == [0] * 6 + [1, 0, 0, 0, 1]


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_the_action_before_a_row_is_the_one_of_the_row_before(kind: str) -> None:
    _, batch = played(kind=kind)
    assert batch["action"].shape == (T, len(batch["index"]), 3 if kind == "discrete" else 2)
    assert torch.equal(batch["prev_action"][1:], batch["action"][:-1])
    assert not batch["prev_action"][0].any()


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_the_world_models_loss_in_numpy(kind: str) -> None:
    policy, batch = played("policy.learn.free_nats=1.5", "policy.learn.obs_scale=3.0", kind=kind)
    loss, figures = policy._world_loss(batch)
    output, total = world_output(policy, batch), 0.0
    obs, final = batch["obs"].flatten(0, 1).numpy(), batch["final_obs"].numpy()
    targets = np.concatenate([obs, final])
    columns = [column.numpy() for column in arrivals(batch, torch.float64)]
    kls = []
    for m, x in enumerate(targets):
        reward, done, known = (column[m] for column in columns)
        total += 3.0 * ((output["obs"][""][m] - np.sign(x) * np.log1p(abs(x))) ** 2).sum()
        total += known * -(two_hot(reward) * log_softmax(output["reward"][m])).sum()
        goes_on = 1.0 / (1.0 + np.exp(-output["continues"][m]))
        total += known * -np.log(1.0 - goes_on if done else goes_on)
        posterior, prior = output["posterior"][m], output["prior"][m]
        kls.append((np.exp(posterior) * (posterior - prior)).sum(-1))
        total += 0.6 * max(1.5, kls[-1].sum())  # 0.5 and 0.1 of the same number, with other gradients
    assert loss.item() == pytest.approx(total / batch["episode_start"].numel(), rel=1e-9)
    assert figures["kl"].tolist() == pytest.approx([kl.sum() for kl in kls])
    assert any(kl.max() < 1.5 < kl.sum() for kl in kls)  # free bits of single variables would be another loss
    assert columns[1].any()
    assert not columns[1][-len(final) :].all()


def test_the_two_divergences_move_one_distribution_each() -> None:
    gradients = {}
    for name, words in {"dyn": (1.0, 0.0), "rep": (0.0, 1.0)}.items():
        keys = [f"policy.learn.{key}={value}" for key, value in zip(("dyn_scale", "rep_scale"), words, strict=True)]
        policy, batch = played(*keys)
        policy._world_loss(batch)[0].backward()
        rssm = policy.model.world.rssm
        gradients[name] = [rssm.prior_net[-1].weight.grad, rssm.posterior_net[-1].weight.grad]
    assert gradients["dyn"][0].abs().sum() > 0
    assert gradients["rep"][0] is None or not gradients["rep"][0].any()
    assert gradients["rep"][1].abs().sum() > 0
    assert not torch.equal(gradients["rep"][1], gradients["dyn"][1])  # that of reconstruction alone


def imagine(*overrides: str, kind: str = "discrete") -> tuple[Any, dict[str, Any], dict[str, Any]]:
    """Return a policy, a batch in which lives are lost, and what is imagined from it."""
    policy, batch = played(*overrides, kind=kind)
    batch["done"] = batch["done"] | (torch.rand(batch["done"].shape, generator=torch.Generator().manual_seed(3)) < 0.3)
    states = policy._world_loss(batch)[1]
    return policy, batch, policy._imagine(states, batch) | {"states": states}


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_returns_weights_and_advantages_of_imagined_steps_in_numpy(kind: str) -> None:
    policy, batch, imagined = imagine(kind=kind)
    states = {name: imagined["states"][name].flatten(0, 1) for name in ("deter", "stoch")}
    noise = tree_map(lambda leaf: leaf.flatten(1, 2), batch["noise"]["imagined"])
    feature = policy.model.imagine(states, noise)["feature"].detach()
    world, model = policy.model.world, policy.model
    outputs = (network(feature).detach().numpy() for network in (world.reward, world.continues, model.critic))
    reward, continues, value = next(outputs), next(outputs)[..., 0], read(next(outputs))
    reward, gamma = read(reward), GAMMA / (1.0 + np.exp(-continues))
    before = np.concatenate([np.zeros((1, batch["done"].shape[1]), bool), batch["done"][:-1].numpy()])
    lost = (before & ~batch["episode_start"].numpy()).ravel()
    assert 0 < lost.sum() < len(lost)
    weight, target = np.where(lost, 0.0, 1.0), value[-1]
    weights, returns = [], [target] * L
    for t in range(L):
        weights.append(weight)
        weight = weight * gamma[t + 1]
    for t in reversed(range(L)):
        target = reward[t + 1] + gamma[t + 1] * ((1 - LAMBDA) * value[t + 1] + LAMBDA * target)
        returns[t] = target
    np.testing.assert_allclose(imagined["weight"], np.stack(weights), rtol=1e-9)
    np.testing.assert_allclose(imagined["return_"], np.stack(returns), rtol=1e-9)
    low, high = (0.01 * np.quantile(np.stack(returns), share) for share in (0.05, 0.95))  # the average began at 0
    assert imagined["range"].item() == pytest.approx(high - low)
    np.testing.assert_allclose(imagined["adv"], (np.stack(returns) - value[:-1]) / max(1.0, high - low), rtol=1e-9)


def test_imagined_steps_follow_the_actor_and_the_prior() -> None:
    """With one class, z is known, so that each h must be the GRU's after the action that is paired with its state."""
    policy, _, imagined = imagine("policy.model.dyn_discrete=1")
    feature, rssm = imagined["feature"], policy.model.world.rssm
    for t in range(L - 1):
        state = {"deter": feature[t, :, :16], "stoch": torch.ones_like(feature[t, :, 16:])}
        deter = rssm.advance(state, policy.model.encode(imagined["action"][t], torch.float64))
        torch.testing.assert_close(feature[t + 1, :, :16], deter)


def test_percentiles_are_an_average_over_iterations_and_small_ranges_do_not_magnify() -> None:
    policy, _ = played()
    first = policy._update_range(torch.arange(101.0, dtype=torch.float64))  # 5th and 95th percentile: 5 and 95
    second = policy._update_range(torch.arange(101.0, dtype=torch.float64) * 2)
    assert [first.item(), second.item()] == pytest.approx([0.01 * 90, 0.99 * 0.9 + 0.01 * 180])
    assert policy.state_dict()["percentiles"].tolist() == pytest.approx([0.99 * 0.05 + 0.1, 0.99 * 0.95 + 1.9])


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_the_actors_loss_in_numpy_counts_the_entropy_once(kind: str) -> None:
    policy, _, imagined = imagine("policy.learn.actor_entropy=0.3", kind=kind)
    loss, figures = policy._actor_loss(imagined)
    logit = tree_map(lambda leaf: leaf.detach().numpy(), policy.model.actor(imagined["feature"]))
    action, adv, weight = (imagined[key].numpy() for key in ("action", "adv", "weight"))
    if kind == "discrete":
        logp = log_softmax(logit)
        chosen, entropy = np.take_along_axis(logp, action[..., None], -1)[..., 0], -(np.exp(logp) * logp).sum(-1)
    else:
        mu, sigma = logit["mu"], logit["sigma"]
        chosen = (-0.5 * ((action - mu) / sigma) ** 2 - np.log(sigma) - 0.5 * np.log(2 * np.pi)).sum(-1)
        entropy = (0.5 + 0.5 * np.log(2 * np.pi) + np.log(sigma)).sum(-1)
    assert loss.item() == pytest.approx(-(weight * (adv * chosen + 0.3 * entropy)).mean())
    np.testing.assert_allclose(figures["entropy"], entropy, rtol=1e-9)


def test_the_critics_loss_in_numpy() -> None:
    policy, _, imagined = imagine("policy.learn.slow_scale=0.5")
    logp, total = log_softmax(policy.model.critic(imagined["feature"]).detach().numpy()), 0.0
    for place in np.ndindex(imagined["return_"].shape):
        target, slow, weight = (imagined[key][place].item() for key in ("return_", "slow_value", "weight"))
        total -= weight * ((two_hot(target) + 0.5 * two_hot(slow)) * logp[place]).sum()
    assert policy._critic_loss(imagined)[0].item() == pytest.approx(total / imagined["return_"].numel())


@pytest.mark.parametrize("kind", ["discrete", "continuous"])
def test_acting_step_by_step_computes_the_states_that_learning_does(kind: str) -> None:
    """With the actions that were played, random ones too, each after the observation that it was chosen for."""
    cfg, policy = build("dreamer", *WORDS, kind=kind)
    block = collect(cfg, policy, 12, 1)
    acted = []
    for t in range(12):
        if block["episode_step"][t, 0] == 0:
            policy.reset(np.array([0]), explore=False)
        policy._forward_eval(block["obs"][t])
        acted.append({name: part.clone() for name, part in policy._memory[False]["state"].items() if name != "action"})
        policy._remember(block["action"][t], explore=False)
    action = policy.model.encode(block["action"].double() if kind == "continuous" else block["action"], torch.float64)
    rows = {"prev_action": torch.cat([torch.zeros_like(action[:1]), action[:-1]])}
    start = block["episode_step"] == 0
    state = policy.model.world(block["obs"].double(), **rows, episode_start=start, noise={})["state"]
    assert start.sum() > 1
    for name in ("deter", "stoch"):
        torch.testing.assert_close(torch.stack([each[name] for each in acted]), state[name])


def test_the_memory_has_the_action_that_was_played_and_ends_with_the_episode() -> None:
    cfg, policy = build("dreamer", *WORDS)
    env = create_vector_env(cfg.env, N, 0, True)
    collector = SampleCollector(env, policy, N, list(range(N)))
    ended = 0
    for step in range(20):
        block, _ = collector.collect(random=step % 2 == 0)
        memory = policy._memory[True]["state"]
        for n in range(N):
            over = bool(block["traj_flag"][0, n])
            expected = np.zeros(3) if over else np.eye(3)[int(block["action"][0, n])]
            assert memory["action"][n].tolist() == expected.tolist()
            assert bool(memory["deter"][n].any()) != over
            ended += over
    env.close()
    assert ended > 5


def test_continuous_actions_are_within_bounds() -> None:
    _, policy = build("dreamer", *WORDS, kind="continuous")
    policy.model.actor.net[-1].bias.data.add_(3.0)
    action = policy.act(torch.randn(200, 4))["action"]
    assert action.abs().max() == 1.0  # the standard deviation is at most 1, so that many would be outside
    assert torch.equal(policy._memory[True]["state"]["action"], action)


def test_imagined_actions_obey_the_mask_that_the_world_model_predicts() -> None:
    policy, batch = played("env.masked=True")
    decoder = policy.model.world.decoder
    last = decoder.networks[decoder.names.index("action_mask")][-1]
    last.weight.data.zero_()
    last.bias.data.copy_(torch.tensor([0.0, np.log(2.0), np.log(2.0)]))  # symlog of 0, 1, 1
    imagined = policy._imagine(policy._world_loss(batch)[1], batch)
    assert set(imagined["action"].unique().tolist()) == {1, 2}
    loss, figures = policy._actor_loss(imagined)
    assert loss.isfinite()
    assert figures["entropy"].max() <= np.log(2.0) + 1e-9


def test_images_and_vectors_of_a_dict_are_encoded_and_decoded() -> None:
    space = Dict(image=Box(0, 255, (3, 16, 16), np.uint8), more=Dict(speed=Box(-np.inf, np.inf, (2,))))
    shapes = {"image": [3, 16, 16], "more": {"speed": 2}}
    encoder = dict(type="conv", kernel_size=[3, 3, 3], stride=[2, 1, 1])
    sizes = dict(dyn_deter=8, dyn_hidden=8, dyn_stoch=2, dyn_discrete=2, units=8, layer_num=1, cnn_depth=2)
    network = Dreamer(shapes, 3, encoder_hidden_size_list=[4, 4, 4, 8], encoder=encoder, **sizes)  # type: ignore[arg-type]
    obs: Any = tree_map(lambda *leaves: torch.as_tensor(np.stack(leaves))[None], *(space.sample() for _ in range(5)))
    output = network(obs, noise={})
    assert output["logit"].shape == (1, 5, 3)
    flat = tree_map(lambda leaf: leaf[0], obs)
    parts = parts_of(flat, torch.float32)
    predicted = network.world.decoder(torch.randn(5, 12))
    assert {name: part.shape for name, part in parts.items()} == {name: part.shape for name, part in predicted.items()}
    torch.testing.assert_close(parts["image"], flat["image"] / 255.0)
    speed = flat["more"]["speed"]
    torch.testing.assert_close(parts["more.speed"], speed.sign() * (speed.abs() + 1.0).log())


def train(folder: str, *overrides: str, steps: int = 160) -> None:
    env = dict(env_id="CartPole-v1", collector_env_num=2, evaluator_env_num=1, n_evaluator_episode=1)
    learn = dict(batch_size=4, update_per_step=0.25, learner=dict(hook=dict(log_show_after_iter=3)))
    policy = dict(num_threads=1, random_collect_size=4, learn=learn, eval=dict(evaluator=dict(eval_freq=16)))
    config = dict(exp_name=folder, env=env, policy=policy), dict(policy=dict(type="dreamer"))
    serial_pipeline(copy.deepcopy(config), seed=0, max_env_step=steps, overrides=[*WORDS, *overrides])


def last_state(folder: str) -> dict[str, Any]:
    """Return the states of all parts and of the rank, but for what counts seconds and bytes."""
    state = load_checkpoint(f"{folder}/ckpt/ckpt_last.pth.tar")
    own = load_checkpoint(f"{folder}/ckpt/iteration_{state['learner']['train_iter']}.rank_0.pth.tar")
    return {"own": own, **{key: value for key, value in state.items() if key != "record"}}


def test_a_run_that_is_resumed_within_its_episodes_equals_the_whole_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """16 random steps, then two iterations for each collect of 8 steps: (160 - 16) / 4 = 36 in all."""
    monkeypatch.chdir(tmp_path)
    train("whole")
    train("parts", steps=80)
    train("parts", "policy.learn.resume_training=True")
    whole, parts = map(last_state, ("whole", "parts"))
    assert whole["learner"]["train_iter"] == 36
    assert not differences(whole, parts)


class Cue(Toy):
    """One half of the first image is bright; the second one is black, and the action there must say which half."""

    observation_space = Box(0, 255, (3, 12, 12), np.uint8)

    def begin(self) -> None:
        self.right = int(self.np_random.integers(2))

    def observe(self) -> Any:
        image = np.zeros((3, 12, 12), np.uint8)
        if self.count == 0:
            image[:, :, 6 * self.right : 6 * self.right + 6] = 255
        return image

    def play(self, action: Any) -> Any:
        return (0.0,) if self.count == 1 else (1.0 if action == self.right else -1.0, True)


@pytest.mark.slow
def test_what_an_image_showed_is_remembered_and_acted_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a memory, the mean return is 0."""
    monkeypatch.setitem(ENV_REGISTRY, "cue", Cue)
    sizes = dict(dyn_deter=32, dyn_hidden=32, dyn_stoch=4, dyn_discrete=4, units=32, layer_num=1, cnn_depth=8)
    encoder = dict(type="conv", kernel_size=[4, 3], stride=[2, 2])
    rates = {f"learning_rate_{name}": rate for name, rate in dict(world=3e-3, actor=1e-3, critic=1e-3).items()}
    policy = dict(
        num_threads=1,
        unroll_len=8,
        imag_horizon=3,
        discount_factor=0.9,
        model=dict(encoder=encoder, encoder_hidden_size_list=[8, 16, 32], **sizes),
        learn=dict(batch_size=16, update_per_step=0.5, **rates),
        eval=dict(evaluator=dict(eval_freq=200)),
    )
    env = dict(collector_env_num=8, evaluator_env_num=8, n_evaluator_episode=64, stop_value=0.95)
    main = dict(exp_name=f"{tmp_path}/run", env=env, policy=policy)
    create = dict(env=dict(type="cue"), policy=dict(type="dreamer"))
    serial_pipeline((main, create), seed=0, max_env_step=6000)
    returns = [line["eval/return_mean"] for line in metrics(tmp_path / "run") if "eval/return_mean" in line]
    assert result(tmp_path / "run")["stop_reason"] == "stop_value", returns
    assert returns[0] < 0.5
