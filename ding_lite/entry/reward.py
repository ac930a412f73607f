"""Places a reward model between the collector of a run and the samples that the policy learns from."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ding_lite.entry.setup import RunSetup
from ding_lite.envs import derive_seeds
from ding_lite.policy import Policy
from ding_lite.reward_model import RewardModel
from ding_lite.torch_utils.modes import Batch, CollectMode, LearnMode
from ding_lite.torch_utils.networks import checksum_networks, modules_of
from ding_lite.utils.ranks.ranks import get_rank
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY
from ding_lite.utils.seed import random_state, set_random_state, set_seed


@dataclass(frozen=True)
class Rewarded:
    """A policy combined with a reward model; workers use its modes instead of the policy's.

    Attributes:
        policy: the policy.
        model: the reward model.
    """

    policy: Policy
    model: RewardModel

    @property
    def collect_mode(self) -> CollectMode:
        """The policy's collect mode, in which the reward model processes each rollout block first."""
        return replace(self.policy.collect_mode, get_train_sample=self._get_train_sample)

    @property
    def learn_mode(self) -> LearnMode:
        """The policy's learn mode, whose checksum includes the reward model's networks."""
        return replace(self.policy.learn_mode, checksum=self._checksum)

    def figures(self) -> dict[str, float]:
        """Return the reward model's figures since the last call, by tag; a collective call."""
        return {f"reward_model/{key}": value for key, value in self.model.take_figures().items()}

    def _get_train_sample(self, block: Batch) -> Batch:
        return self.policy.collect_mode.get_train_sample(self.model.process(block))

    def _checksum(self) -> tuple[int, int]:
        return checksum_networks([*modules_of(self.policy), *self.model.networks])


def add_reward_model(setup: RunSetup, policy: Policy) -> Rewarded:
    """Build the config's reward model, and combine it with the policy; a collective call.

    The random states of this process do not change.
    """
    cfg, spec, state = setup.cfg, setup.spec, random_state()
    set_seed(derive_seeds(cfg.seed, get_rank(), "reward_model", n=1)[0])
    reward_model_cls = REWARD_MODEL_REGISTRY.find(cfg.reward_model.type)
    spaces = (spec.observation_space, spec.action_space)
    model = reward_model_cls(cfg.reward_model, cfg.policy, *spaces, policy.device)
    set_random_state(state)
    return Rewarded(policy, model)
