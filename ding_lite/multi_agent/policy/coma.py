"""COMA, counterfactual multi-agent policy gradients (Foerster et al. 2018, arXiv:1705.08926), on-policy.

The agents share a reward and a policy. A critic, needed only to learn, gives Q_m(s, a): the value of all actions a in
the global state s, as a function of the action of agent m while the others' actions stay. What agent m gains by its
action is that value minus its mean over the actions that m could have taken instead (eq. 4):

    A_m(s, a) = Q_m(s, a) - sum_a' pi(a' | o_m) Q_m(s, (a_-m, a'))
    L = - mean policy_weight A_m(s_t, a_t) log pi(a_m,t | o_m,t) + entropy_weight H(pi(. | o_m,t))
        + value_weight mean (G_m,t - Q_m(s_t, a_t))^2
    G_m,t = r_t + g (1 - done_t) (lambda G_m,t+1 + (1 - lambda) Q'_m(s_{t+1}, a_{t+1}))

with discount g and the target critic Q'. The advantage has no gradient. o_m stands for all that agent m has observed in
the episode, if it has a memory (`model.lstm_type`). The return G needs the actions that followed. Where an episode was
truncated, and at the end of a collect, there are none: there Q'_m(s_t, a_t) replaces G_m,t for the earlier steps, and
the critic does not learn from step t.

Shapes: T steps of a collect, N environments, B environments of a minibatch, M agents, A actions of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

import gymnasium
import torch
from torch import Tensor

from ding_lite.multi_agent.model.agents import stand_ins
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import EPOCH_KEYS, LEARNING_RATE_KEYS, ROLLOUT_KEYS
from ding_lite.policy.sequences import by_environment, sequence_minibatches
from ding_lite.rl_utils.common import pick, weighted_mean
from ding_lite.rl_utils.distribution import log_prob_entropy, sample
from ding_lite.rl_utils.policy_gradient import generalized_lambda_returns
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.torch_utils.minibatch import rank_sizes
from ding_lite.torch_utils.normalizer import active_agents
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import MASK

COLUMNS = ("obs", "action", "reward", "done", "traj_flag", "prev_state", "episode_step")


@POLICY_REGISTRY.register("coma")
class COMAPolicy(Policy):
    """COMA. Override `_loss` to change the objective."""

    key_groups = (ROLLOUT_KEYS, EPOCH_KEYS, LEARNING_RATE_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="coma",
        discount_factor=0.99,
        learn=dict(
            epoch_per_collect=1,
            batch_size=Key(640, "approximate number of env steps per rank and iteration", low=1),
            learning_rate=0.0005,
            target_theta=Key(0.01, "share of the model mixed into the target at each update", above=0, high=1),
            td_lambda=Key(0.8, "lambda of the critic's returns", low=0, high=1),
            policy_weight=Key(1.0, "weight of the policy loss"),
            value_weight=Key(1.0, "weight of the value loss"),
            entropy_weight=Key(0.01, "weight of the entropy bonus"),
        ),
        collect=dict(
            n_sample=640,
        ),
    )
    model_type = "coma"
    learns_from: ClassVar[Literal["replay", "collect", "dataset"]] = "collect"
    allows_lag = False
    action_spaces = (gymnasium.spaces.MultiDiscrete,)
    multi_agent = True
    actor_mode = "compute_actor"
    stored_outputs = ("prev_state",)
    remembers = True
    logged_figures = ("policy_loss", "value_loss", "entropy", "q_value")

    def _init_learn(self) -> None:
        super()._init_learn()
        self._target_model = self._add_target("model")

    def _batches(self, samples: Batch) -> Iterator[Batch]:
        block = self._to_device(samples)
        active_TNM = active_agents(block["obs"])
        if active_TNM is not None:  # the action of an agent out of the game is the one that its mask allows
            only_TNM = (block["obs"][MASK] != 0).int().argmax(-1)
            block |= {"active": active_TNM, "action": block["action"].where(active_TNM, only_TNM)}
        samples_N = by_environment({key: block[key] for key in (*COLUMNS, "active") if key in block})
        sizes = rank_sizes(len(samples_N["reward"]))
        for _ in range(self._cfg.learn.epoch_per_collect):
            yield from sequence_minibatches(samples_N, self._cfg.learn.batch_size, sizes)

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures of a minibatch of `sequence_minibatches`."""
        learn, rows = self._cfg.learn, batch["episode_start"].shape
        names = ("action", "reward", "done", "traj_flag")
        action_TBM, reward_TB, done_TB, cut_TB = (batch[name].unflatten(0, rows) for name in names)
        weight_TBM = batch["weight"].view(*rows, -1) if "weight" in batch else None
        critic = {"mode": "compute_critic", "action": action_TBM}
        q_TBMA = self._run(self._model, batch["obs"], **critic)["q_value"]
        q_TBM = pick(q_TBMA, action_TBM)
        with torch.no_grad():
            target_TBM = pick(self._run(self._target_model, batch["obs"], **critic)["q_value"], action_TBM)
            active_TBM = active_agents(batch["obs"])
            if active_TBM is not None:
                target_TBM = target_TBM.gather(-1, stand_ins(active_TBM))
            cut_TB = cut_TB.clone()
            cut_TB[-1] = True
            open_TB1 = (cut_TB & ~done_TB).unsqueeze(-1)  # steps that no known action follows
            return_TBM = generalized_lambda_returns(
                bootstrap_values=torch.cat([target_TBM, target_TBM[-1:]]),
                rewards=torch.where(open_TB1, target_TBM, reward_TB.unsqueeze(-1)),
                gammas=torch.where(open_TB1, 0.0, self._cfg.discount_factor).expand_as(target_TBM),
                lambda_=learn.td_lambda,
                done=done_TB.unsqueeze(-1).expand_as(target_TBM),
            )
        states = {key: batch[key] for key in ("prev_state", "episode_start")}
        logit_TBMA = self._run(self._model, batch["obs"], mode="compute_actor", **states)["logit"]
        logp_TBM, entropy_TBM = log_prob_entropy(logit_TBMA, action_TBM)
        with torch.no_grad():
            baseline_TBM = (logit_TBMA.softmax(-1) * q_TBMA).sum(-1)
            adv_TBM = q_TBM - baseline_TBM
        policy_loss = -weighted_mean(logp_TBM * adv_TBM, weight_TBM)
        value_loss = weighted_mean((return_TBM - q_TBM).masked_fill(open_TB1, 0.0).square(), weight_TBM)
        entropy = weighted_mean(entropy_TBM, weight_TBM)
        loss = learn.policy_weight * policy_loss + learn.value_weight * value_loss - learn.entropy_weight * entropy
        q_value = weighted_mean(q_TBM, weight_TBM)
        figures = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy, "q_value": q_value}
        return loss, {key: value.detach() for key, value in figures.items()}

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = self._run(self._model, obs, explore=True, mode=self.actor_mode)
        return output | {"action": sample(output["logit"])}
