"""What every discriminator does: what it sees of a step, where its rewards go, and that runs with it go on exactly."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import Space
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
from ding_lite.imitation.adversarial import StepEncoder, draw
from ding_lite.policy import Policy
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.utils import ConfigError, get_rank, get_world_size, load_checkpoint
from ding_lite.utils.tree import tree_map
from ding_lite.worker import SequenceReplayBuffer, UniformReplayBuffer
from tests.distributed.on_ranks import call_on_ranks
from tests.imitation.helpers import OBS, build, make_block, pair, write_cartpole_expert, write_expert
from tests.run.helpers import metrics
from tests.survival.common import differences

ACTION_TN = torch.tensor([[0, 1], [2, 0], [1, 1]])


def test_discrete_actions_are_one_hot_and_those_of_a_box_stay_within_its_bounds() -> None:
    def encode(space: Space[Any], *action: Any) -> Any:
        return StepEncoder(OBS, space, []).encode_action(torch.tensor(action)).tolist()

    assert encode(Discrete(3), 2, 0) == [[0, 0, 1], [1, 0, 0]]
    assert encode(MultiDiscrete([2, 3]), [1, 2]) == [[0, 1, 0, 0, 1]]
    assert encode(Box(-1.0, 1.0, (2,)), [0.5, -3.0]) == [[0.5, -1.0]]  # a Gaussian policy's -3 is played as -1
    with pytest.raises(ConfigError, match="needs a Discrete, MultiDiscrete or Box action space, got Dict"):
        StepEncoder(OBS, Dict(action_type=Discrete(2)), [])


def test_images_and_dicts_are_encoded_and_masks_are_not_seen() -> None:
    image = Box(0, 255, (3, 42, 42), np.uint8)
    encoder = StepEncoder(Dict(camera=image, action_mask=Box(0, 1, (2,), np.int8)), Discrete(2), [8, 8, 5])
    assert encoder.size == 7
    obs = {"camera": torch.zeros(4, 3, 42, 42, dtype=torch.uint8), "action_mask": torch.ones(4, 2)}
    other = {**obs, "action_mask": torch.zeros(4, 2)}
    assert encoder(obs, torch.eye(2)[[0, 1, 0, 1]]).shape == (4, 7)
    assert torch.equal(encoder(obs, torch.zeros(4, 2)), encoder(other, torch.zeros(4, 2)))


def test_expert_and_policy_pass_the_same_normaliser_and_have_the_same_units(tmp_path: Path) -> None:
    """The environment's actions lie in 0..4, so its 4 is the policy's 1, and 1 its -0.5."""
    space, policys = Box(0.0, 4.0, (1,)), Box(-1.0, 1.0, (1,))
    played = np.array([[4.0], [1.0]] * 6, np.float32)
    path = write_expert(tmp_path / "expert.npz", space, action=played)
    normalizer = Normalizer(OBS, None)
    normalizer.update({"obs": torch.tensor([[[1.0, -2.0]], [[5.0, 2.0]]])})  # mean (3, 0), deviation (2, 2)
    model = build(path, action_space=space, policy_action_space=policys, normalizer=normalizer)
    expert = model._ready(model._expert)
    assert expert["action"][:2].tolist() == [[1.0], [-0.5]]
    raw = np.load(path)["obs"]
    np.testing.assert_allclose(expert["obs"], (raw - [3.0, 0.0]) / 2.0, rtol=1e-5, atol=1e-6)
    own = {"obs": torch.from_numpy(raw[:2]).view(2, 1, 2), "action": torch.tensor([[[1.0]], [[-0.5]]])}
    assert torch.equal(model._ready(model._steps_of(own))["obs"], expert["obs"][:2])


def test_replay_returns_the_rewards_of_now_and_keeps_what_was_stored(tmp_path: Path) -> None:
    """With n = 2 and g = 0.5, a sample has r_0 + 0.5 r_1, or r_0 alone where the trajectory is cut."""
    replay = UniformReplayBuffer(64, 2, nstep=2, gamma=0.5)
    model = build(write_expert(tmp_path / "expert.npz"), replay)
    cut_TN = torch.tensor([[False, True], [False, False], [False, False]])
    block = make_block(ACTION_TN, traj_flag=cut_TN)
    before = copy.deepcopy(block)
    stored = model.process(block)
    assert all(torch.equal(block[key], before[key]) for key in before)  # the environment's rewards are not written over
    replay.push(stored)
    for _ in range(2):
        for parameter in model._head.parameters():
            parameter.data += 0.1  # it learns
        with torch.no_grad():
            reward_TN = model.relabel(block)["reward"]
        batch = replay.sample(40)
        row_B, env_B = batch["index"] // 2, batch["index"] % 2
        follows_B = (~cut_TN[row_B, env_B]).float()
        expected_B = reward_TN[row_B, env_B] + 0.5 * follows_B * reward_TN[(row_B + 1).clamp(max=2), env_B]
        torch.testing.assert_close(batch["reward"], expected_B)
        assert not torch.equal(reward_TN, stored["reward"])
        assert torch.equal(replay.ring.columns["reward"][:6].view(3, 2), stored["reward"])


def test_the_policys_samples_are_the_collect_or_those_of_replay(tmp_path: Path) -> None:
    replay, generator = UniformReplayBuffer(64, 2), torch.Generator().manual_seed(0)
    model = build(write_expert(tmp_path / "expert.npz"), replay, update_per_collect=4, batch_size=8)
    assert model._replayed(generator) == {}
    block = make_block(ACTION_TN)
    replay.push(block)
    steps = model._replayed(generator)
    assert steps["obs"].shape == (32, 2)  # as many as 4 updates draw
    places = {tuple(obs) for obs in block["obs"][:2].flatten(0, 1).tolist()}  # the newest row has no successor yet
    assert {tuple(obs) for obs in steps["obs"].tolist()} == places


def test_what_does_not_draw_transitions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rewards of single steps when they are drawn, .* 'dqn', 'sac' or 'ppo'\.$"):
        build(write_expert(tmp_path / "expert.npz"), SequenceReplayBuffer(64, 2, unroll_len=4))
    with pytest.raises(ConfigError, match=r"'gail' imitates a single agent, but policy 'dqn' has several"):
        build(write_expert(tmp_path / "expert.npz"), multi_agent=True)


def train(*words: str, steps: int = 20, **policy: Any) -> Policy:
    words = ("reward_model.absorbing=True", *words)
    pipeline = serial_pipeline_onpolicy if policy.get("type") == "ppo" else serial_pipeline
    return pipeline(pair(**policy), seed=0, max_train_iter=steps, overrides=words)


def test_logged_returns_are_the_environments_and_its_rewards_teach_nothing(tmp_path: Path) -> None:
    """CartPole pays 1 a step, so returns are the episodes' lengths. Paid otherwise, the policy is the same."""
    write_cartpole_expert()
    negated = "env.wrappers=['tests.imitation.helpers:Negated']"
    ends = [train("exp_name=one"), train("exp_name=other", negated)]
    for name in ("one", "other"):
        lines = metrics(tmp_path / name)
        lengths = [value for line in lines for key, value in line.items() if key.endswith("return_mean")]
        assert lengths
        assert all(8.0 <= value <= 30.0 for value in lengths)
    assert ends[0].checksum() == ends[1].checksum()


def test_a_run_that_was_stopped_goes_on_to_the_bit(tmp_path: Path) -> None:
    write_cartpole_expert()
    save = "policy.learn.learner.hook.save_ckpt_after_iter=8"
    train("exp_name=whole", save, steps=40)
    train("exp_name=parts", save, steps=20)
    train("exp_name=parts", save, "policy.learn.resume_training=True", steps=40)
    whole, parts = (load_checkpoint(str(tmp_path / name / "ckpt" / "ckpt_last.pth.tar")) for name in ("whole", "parts"))
    for part in ("policy", "reward_model"):
        assert differences(whole[part], parts[part]) == []


def test_an_on_policy_policy_learns_from_its_rewards_too(tmp_path: Path) -> None:
    write_cartpole_expert()
    keys: Any = dict(multi_gpu=True, num_threads=1, learn=dict(batch_size=16), collect=dict(n_sample=32))
    hook = "policy.learn.learner.hook.log_show_after_iter=10"
    train(hook, type="ppo", **copy.deepcopy(keys))
    assert any("reward_model/expert_accuracy" in line for line in metrics(tmp_path / "run"))


def train_on_ranks(*words: str, steps: int = 40) -> tuple[int, int]:
    return train("policy.learn.learner.hook.check_ranks_after_iter=10", *words, steps=steps).checksum()


@pytest.mark.slow
def test_two_ranks_have_one_discriminator_and_one_goes_on_with_it(tmp_path: Path) -> None:
    write_cartpole_expert(tmp_path / "expert.npz")
    one, other = call_on_ranks(train_on_ranks, "policy.divide=True", timeout=280, cwd=tmp_path)
    assert one == other
    before = load_checkpoint(str(tmp_path / "run" / "ckpt" / "ckpt_last.pth.tar"))["reward_model"]
    train_on_ranks("policy.divide=True", "policy.learn.resume_training=True", steps=60)
    after = load_checkpoint(str(tmp_path / "run" / "ckpt" / "ckpt_last.pth.tar"))["reward_model"]
    steps = [state["optimizer"]["discriminator"]["optimizer_steps"] for state in (before, after)]
    assert 0 < steps[0] < steps[1]


def step_on_a_share(path: str, batch: Any) -> list[Any]:
    """Take a step on this rank's share of a batch; return the parameters."""
    model = build(path, absorbing=True, optimizer="sgd", learning_rate=0.1)
    rank, ranks = get_rank(), get_world_size()
    model._optimizer.step(model._loss, tree_map(lambda leaf: leaf.chunk(ranks)[rank], batch))
    return [parameter.detach().clone() for parameter in model._head.parameters()]


def test_two_ranks_take_the_step_of_one_with_the_joined_batch(tmp_path: Path) -> None:
    path = write_expert(tmp_path / "expert.npz")
    model, generator = build(path, absorbing=True), torch.Generator().manual_seed(0)
    sides = (model._steps_of(make_block(ACTION_TN, ACTION_TN == 0)), model._expert)
    own, expert = (model._samples(model._ready(steps)) for steps in sides)
    drawn = {side: draw(steps, 8, generator) for side, steps in (("own", own), ("expert", expert))}
    batch = drawn | {"place": torch.rand(8, 1, generator=generator)}
    whole = step_on_a_share(path, batch)
    for parts in call_on_ranks(step_on_a_share, path, batch, cwd=tmp_path):
        for part, parameter in zip(parts, whole, strict=True):
            torch.testing.assert_close(part, parameter, rtol=1e-4, atol=1e-6)
