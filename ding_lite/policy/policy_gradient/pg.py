"""Policy gradient, REINFORCE (Williams 1992, doi:10.1007/BF00992696), on whole episodes.

    L = -mean R_t log pi(a_t | s_t) - entropy_weight mean H(pi(. | s_t))

R_t = r_t + g r_{t+1} + ... is the discounted sum of the rewards up to the episode's end, H the entropy in nats. An
episode that a time limit truncates is used as it is, because there is no value function to bootstrap from.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import EPISODE_KEYS, LEARNING_RATE_KEYS
from ding_lite.policy.policy_gradient.actor_critic import DISTRIBUTIONS
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import log_prob_entropy, mode, sample
from ding_lite.rl_utils.policy_gradient import first_episodes, gae, gae_data
from ding_lite.torch_utils.data import Batch, Block, Figures, Output
from ding_lite.utils.key import Groups, Key
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_map


@POLICY_REGISTRY.register("pg")
class PGPolicy(Policy):
    """REINFORCE, for discrete, multi-discrete, continuous or hybrid actions.

    Override `_loss` to change the objective.
    """

    key_groups: ClassVar[Groups] = (EPISODE_KEYS, LEARNING_RATE_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="pg",
        deterministic_eval=Key(True, "evaluate with the most likely action instead of a sampled one"),
        learn=dict(
            entropy_weight=Key(0.01, "weight of the entropy bonus"),
            grad_clip_type="clip_norm",
            grad_clip_value=5.0,
        ),
    )
    learns_from = "collect"
    allows_lag = False
    model_type = "pg"
    action_spaces = DISTRIBUTIONS
    logged_figures: ClassVar[tuple[str, ...]] = ("policy_loss", "entropy", "return")

    def _get_train_sample(self, block: Block) -> Batch:
        """Return `obs`, `action`, `return_` and `stored_outputs` of the episodes of `first_episodes`, `[M, ...]`.

        `return_` is the discounted sum of the rewards from the step to the end of its episode.
        """
        nothing = torch.zeros_like(block["reward"])
        data = gae_data(nothing, nothing, block["reward"], block["done"], block["traj_flag"])
        returns = gae(data, self._cfg.discount_factor, lambda_=1.0)  # with values of zero, advantages are returns
        columns = {key: block[key] for key in ("obs", "action", *self.stored_outputs)} | {"return_": returns}
        counted_TN = first_episodes(block["final_index"], *block["reward"].shape)
        return tree_map(lambda leaf: leaf[counted_TN], columns)

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        logit = self._run(self._model, batch["obs"])["logit"]
        logp_B, entropy_B = log_prob_entropy(logit, batch["action"])
        policy_loss = -weighted_mean(logp_B * batch["return_"], batch.get("weight"))
        entropy = weighted_mean(entropy_B, batch.get("weight"))
        figures = {"policy_loss": policy_loss.detach(), "entropy": entropy.detach(), "return": batch["return_"]}
        return policy_loss - self._cfg.learn.entropy_weight * entropy, figures

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = self._run(self._model, obs)
        return output | {"action": sample(output["logit"])}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        logit = self._run(self._model, obs)["logit"]
        action = mode(logit) if self._cfg.deterministic_eval else sample(logit, self._eval_random)
        return {"logit": logit, "action": action}
