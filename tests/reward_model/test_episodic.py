"""The intrinsic reward of NGU: the kernel and the memory by hand, and runs with the policy `ngu`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict
from gymnasium.spaces import Box, Discrete
from torch import Tensor

from ding_lite.entry import Callback, serial_pipeline
from ding_lite.policy import DQNPolicy
from ding_lite.reward_model.episodic import EpisodicMemory, NguRewardModel, episodic_reward
from ding_lite.utils import ConfigError, get_rank, load_checkpoint
from ding_lite.utils.key import declared_keys, default_values
from tests.distributed.on_ranks import call_on_ranks
from tests.run.helpers import metrics
from tests.run.test_resume import last_state
from tests.survival.common import differences

T, N = 16, 4


def build(num_policies: int = 1, **values: Any) -> NguRewardModel:
    torch.manual_seed(0)
    small = dict(hidden_size_list=[16, 8], batch_size=16, update_per_collect=0, num_neighbors=3, memory_size=50)
    cfg = EasyDict({**default_values(declared_keys(NguRewardModel)), **small, **values})
    policy_cfg = EasyDict({**DQNPolicy.default_config(), "num_policies": num_policies})
    return NguRewardModel(cfg, policy_cfg, Box(-1.0, 1.0, (4,), np.float32), Discrete(3), torch.device("cpu"))


def play(n_step: int = T) -> dict[str, Any]:
    """Return a block of one episode in each of N environments."""
    draw = torch.Generator().manual_seed(1)
    obs, action = torch.randn(n_step + 1, N, 4, generator=draw), torch.randint(3, (n_step, N), generator=draw)
    step_TN = torch.arange(n_step).int().unsqueeze(1).repeat(1, N)
    rows = {"obs": obs[:-1], "action": action, "reward": torch.full((n_step, N), 5.0), "episode_step": step_TN}
    return rows | {"done": torch.zeros(n_step, N, dtype=torch.bool), "last_obs": obs[-1]}


def part(block: dict[str, Any], rows: slice, envs: slice) -> dict[str, Any]:
    """Return some rows of some environments of a block; what follows them is the next row, or the last one."""
    obs = torch.cat([block["obs"], block["last_obs"][None]])
    columns = {key: value[rows, envs] for key, value in block.items() if key != "last_obs"}
    return columns | {"last_obs": obs[rows.stop, envs]}


def test_the_kernel_by_hand() -> None:
    # d / mean = 0, 2, inf; minus xi = 0.5: 0, 1.5, inf. K = 1 / (. + 1): 1, 0.4, 0. s = sqrt(1.4) + 0.5 = 1.683216
    distance_K, mean = torch.tensor([0.0, 4.0, torch.inf]), torch.tensor(2.0)
    kernel: dict[str, Any] = dict(epsilon=1.0, cluster_distance=0.5, c=0.5)
    assert episodic_reward(distance_K, mean, **kernel, max_similarity=8.0).item() == pytest.approx(1 / 1.683216)
    assert episodic_reward(distance_K, mean, **kernel, max_similarity=1.6).item() == 0.0


def test_a_memory_has_what_came_before_in_the_episode_and_forgets_the_oldest() -> None:
    def distances(capacity: int, start_T: list[bool]) -> Any:
        memory = EpisodicMemory(capacity, 1, torch.device("cpu"))
        before, after = (torch.tensor(values).view(3, 1, 1) for values in ([0.0, 1.0, 7.0], [1.0, 3.0, 1.0]))
        return memory.distances(before, after, torch.tensor(start_T)[:, None], 2)[:, 0].tolist()

    inf = torch.inf
    # 1 after {0}; 3 after {0, 1}; 1 after {0, 1, 3}, or after {1, 3} if only two fit; 1 after {7} in a new episode
    assert distances(50, [True, False, False]) == [[1.0, inf], [4.0, 9.0], [0.0, 1.0]]
    assert distances(2, [True, False, False]) == [[1.0, inf], [4.0, 9.0], [0.0, 4.0]]
    assert distances(50, [True, False, True]) == [[1.0, inf], [4.0, 9.0], [36.0, inf]]


def test_memories_go_on_with_a_lost_life_and_end_with_the_episode() -> None:
    def rewards(done: bool, ends: bool) -> Tensor:
        block = play()
        block["done"][7] = done
        block["episode_step"][8:] -= 8 * ends
        return build().process(block)["reward"]

    whole = rewards(done=False, ends=False)
    assert torch.equal(rewards(done=True, ends=False), whole)
    assert torch.equal(rewards(done=True, ends=True)[:1], rewards(done=False, ends=True)[:1])
    assert not torch.equal(rewards(done=True, ends=True)[8:], whole[8:])


def test_an_episode_is_remembered_from_block_to_block_and_through_a_checkpoint() -> None:
    block = play()
    model, other = build(), build()
    expected_TN = model._memory.distances(*embeddings(model, block), 3)
    half = part(block, slice(0, 8), slice(0, N))
    other._memory.distances(*embeddings(other, half), 3)
    third = build()
    third.load_local_state_dict(other.local_state_dict())
    rest = part(block, slice(8, T), slice(0, N))
    assert torch.equal(third._memory.distances(*embeddings(third, rest), 3), expected_TN[8:])


@torch.no_grad()
def embeddings(model: NguRewardModel, block: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor]:
    data, shape = model._data(block), block["reward"].shape
    before, after = (model._networks["embedding"](data[key]).unflatten(0, shape) for key in ("before", "after"))
    return before, after, block["episode_step"] == 0


def test_actors_of_a_rank_have_memories_of_their_own() -> None:
    block, model = play(), build()
    whole_TN = build().process(block)["reward"]
    first_TN, second_TN = (
        model.process(part(block, slice(0, T), slice(2 * i, 2 * i + 2)) | {"actor": torch.tensor(i)})["reward"]
        for i in range(2)
    )
    assert model._memory.state_dict()["count"].tolist() == [T + 1] * N  # the first observation, and those that follow
    assert first_TN.shape == second_TN.shape == whole_TN[:, :2].shape


def test_the_factor_is_between_1_and_its_bound() -> None:
    model = build(intrinsic_reward_type="assign", intrinsic_reward_weight=1.0, max_reward_scaling=1.3)
    block = play()
    block["obs"][8] *= 20  # rare
    model.process(block)
    figures = model._measure(block, model._bonus(model._data(block)).detach().view(T, N))
    scaling_TN = figures["reward_scaling"]
    assert scaling_TN.min() == 1.0
    assert scaling_TN.max() == pytest.approx(1.3)
    assert (scaling_TN[7] == scaling_TN.max()).all()


def test_each_policy_of_the_family_has_its_weight_and_the_first_has_none() -> None:
    block, weight = play(), 0.3
    block["member"] = torch.arange(N).repeat(T, 1) % 3
    block["done"][3] = True
    model = build(num_policies=3, intrinsic_reward_weight=weight, final_reward_weight=10.0)
    given = {key: value.clone() for key, value in block.items()}
    reward_TN = model.process(block)["reward"]
    assert all(torch.equal(block[key], value) for key, value in given.items())
    own_TN = torch.where(block["done"], 50.0, 5.0)
    assert torch.equal(reward_TN[:, [0, 3]], own_TN[:, [0, 3]])
    torch.testing.assert_close(reward_TN[:, 2] - own_TN[:, 2], weight * model._intrinsic_TN[:, 2])
    # (N - 2 = 1, i = 1): sigmoid(10)
    torch.testing.assert_close(reward_TN[:, 1] - own_TN[:, 1], weight * 0.9999546 * model._intrinsic_TN[:, 1])
    del block["member"]
    assert (build(num_policies=1).process(block)["reward"] > block["reward"]).all()


def relabel_own() -> Tensor:
    envs = slice(2 * get_rank(), 2 * get_rank() + 2)
    return build().process(part(play(), slice(0, T), envs))["reward"]


def test_two_ranks_pay_what_one_process_with_all_environments_does() -> None:
    torch.testing.assert_close(torch.cat(call_on_ranks(relabel_own), 1), build().process(play())["reward"])


# -- runs -------------------------------------------------------------------------------------------------------------

MAIN: dict[str, Any] = dict(
    exp_name="run",
    env=dict(collector_env_num=4, evaluator_env_num=2, n_evaluator_episode=2, max_episode_steps=30),
    policy=dict(
        multi_gpu=True,
        num_threads=1,
        num_policies=4,
        unroll_len=4,
        burnin_step=2,
        nstep=3,
        divide=True,
        model=dict(encoder_hidden_size_list=[16, 16]),
        learn=dict(batch_size=8, learner=dict(hook=dict(log_show_after_iter=7))),
        eval=dict(evaluator=dict(eval_freq=20)),
        other=dict(replay_buffer=dict(replay_buffer_size=200)),
    ),
    reward_model=dict(hidden_size_list=[16, 8], batch_size=16, update_per_collect=2),
)
CREATE: dict[str, Any] = dict(
    env=dict(type="gymnasium", env_id="CartPole-v1"), policy=dict(type="ngu"), reward_model=dict(type="ngu")
)


def train(number: int, *words: str, callbacks: Any = ()) -> None:
    serial_pipeline((MAIN, CREATE), seed=0, max_train_iter=number, overrides=words, callbacks=callbacks)


def test_a_resumed_run_equals_a_whole_one_and_logs_the_environments_returns(tmp_path: Path) -> None:
    words = ["reward_model.intrinsic_reward_weight=100.0", "exp_name="]
    train(40, words[0], words[1] + "whole")
    train(20, words[0], words[1] + "parts")
    train(40, words[0], words[1] + "parts", "policy.learn.resume_training=True")
    assert not differences(last_state(str(tmp_path / "whole")), last_state(str(tmp_path / "parts")))
    records = metrics(tmp_path / "whole")
    returns = [value for record in records for key, value in record.items() if key.endswith("/return_mean")]
    assert returns
    assert all(0.0 < value <= 30.0 for value in returns)
    assert any("reward_model/intrinsic_reward" in record for record in records)


class Look(Callback):
    """Keeps what the reward model and the policy remember when the run begins."""

    def on_start(self, run: Any) -> None:
        self.memory = run.learning_parts["reward_model"]._memory.state_dict()
        self.last = run.policy.local_state_dict()["last"]


@pytest.mark.slow
def test_a_run_of_two_ranks_goes_on_with_one(tmp_path: Path) -> None:
    call_on_ranks(train, 20, timeout=200, cwd=tmp_path)
    states = [load_checkpoint(str(tmp_path / f"run/ckpt/iteration_20.rank_{rank}.pth.tar")) for rank in range(2)]
    look = Look()
    train(30, "policy.learn.resume_training=True", callbacks=[look])
    for key, value in look.memory.items():
        assert torch.equal(value, torch.cat([state["reward_model"]["memory"][key] for state in states]))
    assert len(look.memory["count"]) == 4
    assert torch.equal(look.last, torch.cat([state["collect_mode"]["last"] for state in states]))


def test_a_family_needs_an_environment_for_each_policy() -> None:
    with pytest.raises(ConfigError, match="num_policies=8 needs as many environments, of all ranks together, got 4"):
        train(1, "policy.num_policies=8")
