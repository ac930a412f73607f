"""Actor-critics, rollout blocks and toy environments for the tests of policies that have an actor."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary
from torch import Tensor, nn

from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map
from tests.policy.helpers import build_policy
from tests.toys import Toy

OBS, A, D = 5, 3, 2
SHAPES: dict[str, Any] = {
    "discrete": A,
    "multi_discrete": [A, 2],
    "continuous": D,
    "hybrid": {"action_type_shape": A, "action_args_shape": D},
}
STEPS, ENVS = 3, 2  # of the block that is worked by hand


class Table(nn.Module):
    """Logits `[S, A]`, or nested dicts of such, and values `[S]` written down, for one-hot observations."""

    def __init__(self, logit: Any, value: list[float]) -> None:
        super().__init__()
        self._parts = nn.ParameterDict()
        self._tree = self._register(logit, "logit")
        self.value = nn.Parameter(torch.tensor(value))

    def _register(self, node: Any, name: str) -> Any:
        if isinstance(node, dict):
            return {key: self._register(part, f"{name}_{key}") for key, part in node.items()}
        self._parts[name] = nn.Parameter(torch.tensor(node))
        return name

    def forward(self, obs: Tensor, mode: str = "compute_actor_critic") -> dict[str, Any]:
        output = {"logit": tree_map(lambda name: obs @ self._parts[name], self._tree)} if "actor" in mode else {}
        return output | ({"value": obs @ self.value} if "critic" in mode else {})


def make_actor(kind: str, *overrides: str, model: nn.Module | None = None, space: str = "discrete") -> Any:
    """Build a small policy; overrides without their `policy.`."""
    network = {
        "obs_shape": OBS, "action_shape": SHAPES[space], "action_space": space, "encoder_hidden_size_list": [16, 8],
    }  # fmt: skip
    on_policy = POLICY_REGISTRY.find(kind).learns_from == "collect"
    collect = {"n_sample": 64} if on_policy and kind != "pg" else {}
    return build_policy(kind, network, *overrides, model=model, collect=collect, learn=dict(batch_size=4))


def hand_block() -> dict[str, Tensor]:
    """Three steps of two environments; every state is another one, so that a sample's tells which it is.

    State t * 2 + n is the observation of row t and environment n; 6 and 7 follow the last row. Every reward is 1.
    Environment 0 is truncated at t = 1, where its last observation was 8; environment 1 ends at t = 0 in 9.
    """
    state = torch.eye(10)
    return {
        "obs": state[:6].view(STEPS, ENVS, 10),
        "action": torch.zeros(STEPS, ENVS, dtype=torch.int64),
        "logit": torch.zeros(STEPS, ENVS, 2),
        "value": torch.arange(1.0, 7.0).view(STEPS, ENVS),
        "reward": torch.ones(STEPS, ENVS),
        "done": torch.tensor([[False, True], [False, False], [False, False]]),
        "traj_flag": torch.tensor([[False, True], [True, False], [False, False]]),
        "episode_step": torch.tensor([[0, 0], [1, 0], [0, 1]], dtype=torch.int32),
        "last_obs": state[6:8],
        "final_obs": state[[9, 8]],
        "final_index": torch.tensor([1, 2]),  # t * 2 + n
    }


def hand_model() -> Table:
    """Both actions are as likely in every state; V(state s) = s + 1, which is what `hand_block` collected."""
    return Table([[0.0, 0.0]] * 10, [float(s + 1) for s in range(10)])


# With gamma = lambda = 1/2, so that what follows counts by 1/4, and r = 1: delta = 1 + V' / 2 - V.
#   environment 0: V 1, 3, 5; V' 3, then 9 of the true final observation, then 7 of the last one: delta 1.5, 2.5, -0.5;
#     the sum is cut after t = 1: 1.5 + 2.5 / 4 = 2.125, 2.5, -0.5
#   environment 1: V 2, 4, 6; V' 0 where it is terminal, 6, 8: delta -1, 0, -1; cut after t = 0: -1, 0 - 1/4, -1
HALVES = ("discount_factor=0.5", "collect.gae_lambda=0.5")
ADV = [2.125, -1.0, 2.5, -0.25, -0.5, -1.0]  # by state
RETURN = [3.125, 1.0, 5.5, 3.75, 4.5, 5.0]  # adv + V


def by_state(batches: list[dict[str, Any]], key: str) -> list[float]:
    """Return the values of the hand block's samples in the order of their states."""
    states = torch.cat([batch["obs"].argmax(-1) for batch in batches])
    return torch.cat([batch[key] for batch in batches])[states.argsort()].tolist()


def make_block(policy: Any, n_step: int = 8, num_envs: int = 4, seed: int = 0) -> dict[str, Any]:
    """Return what a collector would of random observations: the policy acts, episodes end here and there."""
    gen = torch.Generator().manual_seed(seed)
    obs = torch.randn(n_step + 1, num_envs, OBS, generator=gen)
    rows = [policy.act(obs[t]) for t in range(n_step)]
    flag = torch.rand(n_step, num_envs, generator=gen) < 0.2
    index = flag.flatten().nonzero().squeeze(1)
    block = tree_map(lambda *leaves: torch.stack(leaves), *rows) | {
        "obs": obs[:-1],
        "reward": torch.randn(n_step, num_envs, generator=gen),
        "done": flag & (torch.rand(n_step, num_envs, generator=gen) < 0.5),
        "traj_flag": flag,
        "episode_step": torch.zeros(n_step, num_envs, dtype=torch.int32),
        "last_obs": obs[-1],
    }
    if "n_episode" in policy.current_config.collect:  # only whole episodes count, and every environment has one
        flag[n_step // 2] = True
        block["done"] &= flag
        index = flag.flatten().nonzero().squeeze(1)
    finals = {"final_index": index, "final_obs": torch.randn(len(index), OBS, generator=gen)}
    return tree_map(torch.clone, block | finals if len(index) else block)  # no inference tensors


def learn(policy: Any, samples: dict[str, Any]) -> list[dict[str, Tensor]]:
    """Begin a collect, and learn from what it gave; return the outputs of the iterations."""
    policy.begin_collect(0)
    return [policy.learn(batch) for batch in policy.batches(samples)]


# -- toys -------------------------------------------------------------------------------------------------------------

TARGETS = ((0.5, -0.5), (-0.5, 0.5), (0.0, 0.8))  # of the arguments, by the type


class Match(Toy):
    """One step an episode: shown one of three signs, choose its number, with its target as arguments.

    The right type is worth 1 less the mean distance of the arguments, a wrong one 0.
    """

    observation_space = Box(-1, 1, (OBS,), np.float64)  # float64, as MuJoCo's
    action_space = Dict({"action_type": Discrete(A), "action_args": Box(-1, 1, (D,), np.float32)})

    def begin(self) -> None:
        self.sign = int(self.np_random.integers(A))

    def observe(self) -> Any:
        return np.eye(OBS)[self.sign]

    def play(self, action: Any) -> Any:
        distance = float(np.abs(action["action_args"] - np.array(TARGETS[self.sign])).mean())
        return float(action["action_type"] == self.sign) * (1.0 - distance), True


class MaskedMatch(Match):
    """Shown one of three signs, do what the next one asks for, or, where that is forbidden, the one after it.

    It is forbidden in half of the episodes, which only the mask shows. What is forbidden cannot be done.
    """

    observation_space = Dict(seen=Match.observation_space, action_mask=MultiBinary(A))  # type: ignore[assignment]
    action_space = Discrete(A)  # type: ignore[assignment]

    def observe(self) -> Any:
        mask = np.ones(A, np.int8)
        mask[(self.sign + 1) % A] = self.np_random.integers(2)
        self.best = (self.sign + 2 - mask[(self.sign + 1) % A]) % A
        return {"seen": np.eye(OBS)[self.sign], "action_mask": mask}

    def play(self, action: Any) -> Any:
        assert action in (self.best, (self.sign + 2) % A, self.sign)
        return float(action == self.best), True


class Corridor(Toy):
    """Five places in a row; each step costs 0.1, the right end is worth 1 and ends the episode; 30 steps at most.

    Action 1 leads to the right in even places, 0 in odd ones. From the left end the best return is 1 - 4 * 0.1 = 0.6.
    """

    observation_space = Box(0, 1, (OBS,), np.float32)

    def begin(self) -> None:
        self.place = 0

    def observe(self) -> Any:
        return np.eye(OBS, dtype=np.float32)[self.place]

    def play(self, action: Any) -> Any:
        self.place = max(self.place + (1 if action != self.place % 2 else -1), 0)
        there = self.place == OBS - 1
        return float(there) - 0.1, there, not there and self.count >= 30
