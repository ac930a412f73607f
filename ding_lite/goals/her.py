"""Hindsight experience replay, HER (Andrychowicz et al. 2017, arXiv:1707.01495): learning from goals that were reached.

An episode that missed its goal g has reached others. A sample (s, a, g) of step t is therefore drawn, with probability
k / (k + 1), with the goal g' = achieved(s_{u+1}) of another step u of its episode, and with the rewards for it:

    r'_i = compute_reward(achieved(s_{i+1}), g'),   i = t, ..., t + n - 1

Goals are replaced when a sample is made, so that replay stores every step once. Only the buffer knows of it; policies,
the loop and its workers do not:

    policy.other.replay_buffer = dict(type="her", her_strategy="future", her_replay_k=4)

Shapes: B samples, K rewards of an n-step sum, P = B K places, G numbers of a goal, E episodes that ended, L of their
rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from gymnasium import Env, Space
from torch import Tensor

from ding_lite.goals.goal_env import BUFFER, GoalEnv, find_goal_space
from ding_lite.torch_utils.data import Batch
from ding_lite.utils.key import Key
from ding_lite.utils.registry import BUFFER_REGISTRY, ConfigError
from ding_lite.worker.replay.buffer import ReplayBuffer, TransitionView, UniformSampler
from ding_lite.worker.replay.ring import Ring

OUTCOMES = ("reward", "done", "traj_flag")  # columns that depend on the goal


class HindsightSampler(UniformSampler):
    """Draws samples uniformly, and of which step they get the achieved goal.

    `goal_index` `[B]` is the place of that step, or -1 if the sample keeps its goal. An episode that still runs ends,
    for now, at the newest row whose next observation is stored. Of one that began before the oldest row, only the rows
    that are left count.

    Args:
        ring: the ring that samples are drawn from.
        strategy: 'final': the last step u of the episode; 'future': uniformly one from t to the last one; 'episode':
            uniformly any one.
        replay_k: k, how many samples have another goal for each that keeps its own.
        seed: of the random generator.
    """

    def __init__(self, ring: Ring, strategy: str, replay_k: int, seed: int = 0) -> None:
        super().__init__(seed)
        self._strategy, self._share = strategy, replay_k / (replay_k + 1)
        # the last place of the episode of each place, in host memory; -1 while it runs
        self._end = np.full(ring.num_places, -1)

    def pushed(self, ring: Ring, number: int, span: int) -> None:
        newest = np.arange(-number * ring.num_envs, 0) + ring.cursor * ring.num_envs
        self._read_ends(ring, newest % ring.num_places)

    def read_all_ends(self, ring: Ring) -> None:
        """Find the ends of all episodes in the ring, whose contents have been replaced or changed."""
        if ring.size:
            self._read_ends(ring, np.arange(ring.places_in_use))

    def _read_ends(self, ring: Ring, place_P: np.ndarray) -> None:
        """Find the episodes that ended at these places, and note their ends for all their rows that are left."""
        self._end[place_P] = -1
        end_E = place_P[_read(ring.columns["traj_flag"], place_P)]
        steps_E = 1 + np.minimum(_read(ring.episode_step, end_E), _age(ring, end_E))
        end_L = end_E.repeat(steps_E)
        before_L = np.arange(len(end_L)) - (steps_E.cumsum() - steps_E).repeat(steps_E)
        self._end[(end_L - before_L * ring.num_envs) % ring.num_places] = end_L

    def draw(self, ring: Ring, starts: range, number: int) -> dict[str, Tensor]:
        drawn = super().draw(ring, starts, number)
        place_B, (share_B, which_B) = drawn["index"].numpy(force=True), self._rng.random((2, number))
        known = (ring.cursor - 2 + ring.keeps_last) % ring.num_rows  # the newest row whose next observation is stored
        end_B = self._end[place_B]
        end_B = np.where(end_B < 0, known * ring.num_envs + place_B % ring.num_envs, end_B)
        age_B = _age(ring, place_B)
        last_B = _age(ring, end_B) - age_B  # steps from the sample's own to the last one of its episode
        first_B = np.zeros_like(last_B)
        if self._strategy == "final":
            first_B = last_B
        elif self._strategy == "episode":
            first_B = -np.minimum(_read(ring.episode_step, place_B), age_B)
        steps_B = first_B + (which_B * (last_B - first_B + 1)).astype(np.int64)
        goal_B = (place_B + steps_B * ring.num_envs) % ring.num_places
        goal_B[share_B >= self._share] = -1
        return drawn | {"goal_index": torch.from_numpy(goal_B).to(ring.device)}


def _read(column: Tensor, place_B: np.ndarray) -> np.ndarray:
    """Return the entries of a column at these places, in host memory."""
    return column[torch.from_numpy(place_B)].numpy(force=True)


def _age(ring: Ring, place_B: np.ndarray) -> np.ndarray:
    """Return the rows of these places, counted from the oldest one."""
    return (place_B // ring.num_envs - ring.cursor + ring.size) % ring.num_rows


class HindsightView(TransitionView):
    """Makes n-step transitions as `TransitionView` does, with the goals and the rewards in hindsight.

    A sum of rewards ends where the new goal ends the episode. A terminal state that the old goal did not cause, such
    as a fall, stays terminal. Without `compute_terminated`, all terminal states stay as they are.

    Attributes:
        env: what the environment says of other goals.
        ends: whether a goal that is reached ends the episode.
    """

    env: GoalEnv
    ends: bool

    @property
    def computes(self) -> bool:  # type: ignore[override]  # a constant of the base class
        """Whether the steps of a sum are judged one by one; a single step is, once its sample has been gathered."""
        return self.span > 1

    def gather(self, ring: Ring, drawn: dict[str, Tensor]) -> Batch:
        index_B, goal_B = drawn["index"], drawn["goal_index"]
        changed_B, desired_BG = goal_B >= 0, ring.columns["obs"]["desired_goal"].index_select(0, index_B)
        desired_BG[changed_B] = achieved_goals(ring, goal_B[changed_B])
        drawn = drawn | {"changed": changed_B, "desired_goal": desired_BG}
        batch = super().gather(ring, drawn)
        obs, next_obs = batch["obs"], batch["next_obs"]
        if not self.computes:
            old = [batch[key] for key in OUTCOMES]
            new = self._judge(ring, drawn, index_B, next_obs["achieved_goal"], *old)
            batch |= dict(zip(OUTCOMES, new, strict=True))
        obs["desired_goal"] = desired_BG
        next_obs["desired_goal"] = torch.where(changed_B.unsqueeze(1), desired_BG, next_obs["desired_goal"])
        return batch

    def _outcomes(self, ring: Ring, drawn: dict[str, Tensor], place_BK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        old, place_P = super()._outcomes(ring, drawn, place_BK), place_BK.flatten()
        new = self._judge(ring, drawn, place_P, achieved_goals(ring, place_P), *(each.flatten() for each in old))
        reward_BK, done_BK, cut_BK = (each.view(place_BK.shape) for each in new)
        return reward_BK, done_BK, cut_BK

    def _judge(
        self,
        ring: Ring,
        drawn: dict[str, Tensor],
        place_P: Tensor,
        achieved_PG: Tensor,
        reward_P: Tensor,
        done_P: Tensor,
        cut_P: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return `reward`, `done` and `traj_flag` `[P]` of steps with the drawn goals, from those that are stored."""
        number = len(place_P) // len(drawn["index"])  # K
        changed_P = drawn["changed"].repeat_interleave(number)
        desired_PG = drawn["desired_goal"].repeat_interleave(number, 0)
        reward_P = torch.where(changed_P, self.env.rewards(achieved_PG, desired_PG), reward_P)
        if self.ends:
            index_E = done_P.nonzero().squeeze(1)
            own_EG = ring.columns["obs"]["desired_goal"][place_P[index_E]]
            ended_P = self.env.terminated(achieved_PG, desired_PG)
            ended_P[index_E] |= ~self.env.terminated(achieved_PG[index_E], own_EG)
            done_P = torch.where(changed_P, ended_P, done_P)
        return reward_P, done_P, cut_P | done_P


def achieved_goals(ring: Ring, place_B: Tensor) -> Tensor:
    """Return the goals `[B, G]` that the steps at these places achieved, also where an episode ended."""
    goal_BG = ring.columns["obs"]["achieved_goal"].index_select(0, ring.later(place_B, 1))
    if ring.finals.capacity:
        slot_B = ring.slot.index_select(0, place_B)
        index_E = (slot_B >= 0).nonzero().squeeze(1)
        goal_BG[index_E] = ring.finals.obs["achieved_goal"][slot_B[index_E]]
    return goal_BG


@BUFFER_REGISTRY.register("her")
class HindsightReplayBuffer(ReplayBuffer):
    """Uniform replay of n-step transitions with goals in hindsight; the keys of `config` are arguments too.

    Raises:
        ConfigError: the policy does not learn from next observations; its returns were estimated for the old goals.
    """

    config: ClassVar[dict[str, Any]] = dict(
        her_strategy=Key(
            "future",
            "step whose goal a sample gets: 'future', its own or a later one; 'final', the last one; 'episode', any",
            choices=("future", "final", "episode"),
        ),
        her_replay_k=Key(
            4,
            "samples with a goal in hindsight for each that keeps its own; 0: none",
            low=0,
            constant="the sampler reads it when the run is built",
        ),
    )
    sampler: HindsightSampler
    view: HindsightView

    def __init__(
        self,
        replay_buffer_size: int,
        num_envs: int,
        her_strategy: str = "future",
        her_replay_k: int = 4,
        *,
        nstep: int = 1,
        gamma: float = 0.99,
        frame_stack: int = 0,
        device: torch.device | str = "cpu",
        next_obs: bool = True,
        seed: int = 0,
        batch_device: torch.device | str | None = None,
    ) -> None:
        if frame_stack or not next_obs:
            what = "frame stacks" if frame_stack else "policies that estimate returns before steps are stored"
            raise ConfigError(f"{BUFFER} does not support {what}: leave the type out.")
        ring = Ring(replay_buffer_size // num_envs, num_envs, device=device)
        sampler = HindsightSampler(ring, her_strategy, her_replay_k, seed)
        super().__init__(ring, sampler, HindsightView(nstep, gamma, device), batch_device)

    @classmethod
    def check_config(cls, cfg: Any) -> None:
        """Refuse what is not possible with goals in hindsight, or would change rewards after `compute_reward`."""
        env, policy = cfg.env, cfg.policy
        given = {
            "reward_model": "reward_model" in cfg,
            **{f"env.{key}": env[key] for key in ("clip_rewards", "episodic_life", "episodic_reward")},
            "policy.unroll_len": "unroll_len" in policy,
            "policy.collect.actors": policy.collect.get("actors"),
            f"env.manager.type='{env.manager.type}'": env.manager.type not in ("base", "subprocess"),
        }
        if key := next((key for key, value in given.items() if value), ""):
            raise ConfigError(
                f"{BUFFER} computes the rewards of single steps with compute_reward of one environment, which does not "
                f"go with {key}: leave one of them out."
            )

    def fit(
        self,
        observation_space: Space[Any],
        units: Any,
        env_space: Space[Any] | None = None,
        layout: str = "",
        ignore_done: bool = False,
        create_env: Callable[[], Env[Any, Any]] | None = None,
    ) -> None:
        """Build the environment that is asked for rewards; it stays open. With `ignore_done`, no goal is an end."""
        assert create_env is not None, "RunSetup.create_replay_buffer passes it"
        goal_space = find_goal_space(observation_space)
        goal_type = goal_space.dtype if env_space is None else env_space["desired_goal"].dtype  # type: ignore[index]
        self.view.env = GoalEnv(create_env(), goal_type)
        self.view.ends = self.view.env.terminates and not ignore_done

    def truncate(self, env_index_K: Tensor, obs: Any) -> None:
        super().truncate(env_index_K, obs)
        self.sampler.read_all_ends(self.ring)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.sampler.read_all_ends(self.ring)

    def _gather(self, drawn: dict[str, Tensor]) -> dict[str, Any]:
        return self.view.gather(self.ring, drawn)  # never as a CUDA graph: the environment computes with NumPy
