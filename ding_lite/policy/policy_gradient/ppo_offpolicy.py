"""PPO with a replay buffer: advantages are estimated once, after a collect, and samples are used many times.

In the ratio pi_new(a) / pi_old(a), pi_old is the policy that collected the sample. Clipping the ratio therefore also
limits how much a sample of a much older policy can change the new one.
"""

from __future__ import annotations

from typing import Any, ClassVar

from ding_lite.policy.common_keys import LEARNING_RATE_KEYS, ROLLOUT_KEYS
from ding_lite.policy.policy_gradient.actor_critic import estimate_advantages
from ding_lite.policy.policy_gradient.ppo import PPO_KEYS, PPOPolicy
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.torch_utils.minibatch import explained_variance, normalize_parts
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY


@POLICY_REGISTRY.register("ppo_offpolicy")
class PPOOffPolicy(PPOPolicy):
    """PPO trained by `serial_pipeline`, from replay. Override `_loss` to change the objective."""

    key_groups = (ROLLOUT_KEYS, LEARNING_RATE_KEYS, PPO_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="ppo_offpolicy",
        random_collect_size=Key(0, "env steps per rank that the policy plays before learning starts", low=0),
        learn=dict(
            update_per_collect=Key(5, "learner iterations after each collect", low=1),
            learning_rate=0.001,
            entropy_weight=0.01,
            adv_norm=False,
        ),
        collect=dict(
            n_sample=128,
        ),
        other=dict(
            replay_buffer=dict(
                type=Key("uniform", "'uniform' or the name of another registered buffer"),
                replay_buffer_size=Key(10000, "capacity of the buffer, in env steps per rank", low=1),
            ),
        ),
    )
    learns_from = "replay"
    required_columns = ("obs", "action", "reward", "done")  # returns are estimated before samples are stored
    recurrent = False

    def _get_train_sample(self, block: Block) -> Batch:
        """Return the block with `adv`, `return_` and `value` `[T, N]`, all in the units of rewards.

        The normalised units of the model change with every batch, so values in them could not be stored. With
        `env.norm_reward`, the units are those of the normalised rewards. With `env.norm_obs`, all values are those of
        observations that are normalised by the newest statistics, as they are in batches.
        """
        active = self.normalizer.active  # it normalises the batches from replay, but has not normalised this block
        given = self.normalizer.normalize(block) if active else block
        value_TN, next_value_TN = self._values(self._to_device(given), recompute=active)
        value_TN, next_value_TN = value_TN.cpu(), next_value_TN.cpu()
        adv_TN, return_TN = estimate_advantages(self, given, value_TN, next_value_TN)
        self._figures["explained_variance"] = explained_variance(value_TN, return_TN)
        return block | {"value": value_TN, "adv": adv_TN, "return_": return_TN}

    def _forward_learn(self, batch: Batch) -> Figures:
        batch = dict(batch)
        self._value_stats.change(self._model, batch["return_"], batch["value"])
        for key in ("value", "return_"):
            batch[key] = self._value_stats.normalize(batch[key])
        if self._cfg.learn.adv_norm:
            (batch["adv"],) = normalize_parts([batch["adv"]])
        return self._optimizer.step(self._loss, batch)
