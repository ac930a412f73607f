"""DreamerV3 (Hafner et al. 2023, arXiv:2301.04104): an actor-critic that learns in a learned model of the environment.

The world model, see `world_model/model/rssm.py`, learns from replayed sequences. With sg(.) without gradient, its loss
is the mean over rows and sequences of

    obs_scale |decoder(s_t) - x_t|^2 + twohot(reward(s_t), r_{t-1}) + BCE(continue(s_t), 1 - done_{t-1})
    + dyn_scale max(free, KL(sg(q_t) || p_t)) + rep_scale max(free, KL(q_t || sg(p_t)))

x are vectors in symlog, or images in 0..1. r_{t-1} and done_{t-1} are those of the step that led to s_t. A KL is the
sum over the variables of a state. The last observation x of an episode is a row, too, without an action after it.

From each state, the actor acts for L steps in the world model alone. Reward r_{t+1}, continuation c_{t+1} and value
v_t are predictions for s_t; c_0 is 0 if s_0 is terminal. Then the actor and the critic minimise the means of

    R_t = r_{t+1} + g c_{t+1} ((1 - lambda) v_{t+1} + lambda R_{t+1}),  R_L = v_L
    w_t = c_0 (g c_1) ... (g c_t)
    L_actor = -w_t (sg((R_t - v_t) / max(1, range)) log pi(a_t | s_t) + actor_entropy H(pi(. | s_t)))
    L_critic = w_t (twohot(critic(s_t), R_t) + slow_scale twohot(critic(s_t), v'_t))

over t < L and the states, with the slow critic v'. `range` is that from the 5th to the 95th percentile of R, an
exponential average over iterations. `world_model/two_hot.py` has twohot(.).

Shapes: T rows, B sequences, K ends of episodes, M = T B + K, L imagined steps, I = T B states to imagine from, A
numbers of an action, S variables with C classes each, N environments.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import gymnasium
import torch
from easydict import EasyDict
from torch import Tensor
from torch.nn import functional

from ding_lite.model.masks import obey_mask
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import SAMPLE_KEYS
from ding_lite.policy.sequences import UNROLL_KEYS
from ding_lite.rl_utils.distribution import kl_divergence, log_prob_entropy, mode, sample
from ding_lite.rl_utils.policy_gradient import multistep_forward_view
from ding_lite.torch_utils.data import Batch, Figures, Output, Row
from ding_lite.torch_utils.switches import evaluated
from ding_lite.utils.key import Key, merge_keys
from ding_lite.utils.ranks.collectives import all_gather_object
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_leaves, tree_map
from ding_lite.world_model.model.dreamer import parts_of
from ding_lite.world_model.two_hot import two_hot_error, two_hot_mean

PERCENTILES, RANGE_SHARE = (0.05, 0.95), 0.01  # of returns, and the share of the newest ones in their average


@POLICY_REGISTRY.register("dreamer")
class DreamerPolicy(Policy):
    """DreamerV3. Override `_world_loss`, `_actor_loss` or `_critic_loss` to change the objective."""

    key_groups = (SAMPLE_KEYS,)
    config: ClassVar[dict[str, Any]] = merge_keys(
        UNROLL_KEYS,
        dict(
            type="dreamer",
            discount_factor=0.997,
            unroll_len=64,
            random_collect_size=16,
            imag_horizon=Key(15, "L: steps that the actor takes in the world model from each state", low=1),
            learn=dict(
                update_per_collect=Key(
                    None, "learner iterations after each collect; None: update_per_step decides", type=int, low=1
                ),
                update_per_step=Key(0.5, "learner iterations for each env step of all ranks", above=0, constant=True),
                learning_rate_world=Key(0.0001, "learning rate of the world model's optimizer", low=0, high=10**6),
                learning_rate_actor=Key(3e-5, "learning rate of the actor's optimizer", low=0, high=10**6),
                learning_rate_critic=Key(3e-5, "learning rate of the critic's optimizer", low=0, high=10**6),
                grad_clip_type="clip_norm",
                grad_clip_value=100.0,
                obs_scale=Key(1.0, "weight of the error of predicted observations", low=0),
                free_nats=Key(1.0, "KL divergence of a state, in nats, below which it is not reduced", low=0),
                dyn_scale=Key(0.5, "weight of the KL divergence that moves the prior to the posterior", low=0),
                rep_scale=Key(0.1, "weight of the one that moves the posterior to the prior", low=0),
                lambda_=Key(0.95, "weight of imagined returns against values", low=0, high=1),
                actor_entropy=Key(3e-4, "weight of the entropy bonus", low=0),
                slow_scale=Key(1.0, "weight of the error between critic and slow critic", low=0),
                target_theta=Key(
                    0.02, "share of the critic mixed into the slow critic at each update", above=0, high=1
                ),
            ),
            collect=dict(
                n_sample=Key(None, "sequences per rank and collect; None: one per environment", type=int, low=1),
            ),
            other=dict(
                replay_buffer=dict(
                    type=Key("sequence_ends", "the buffer of world models"),
                    replay_buffer_size=10000,
                ),
            ),
        ),
    )
    model_type = "dreamer"
    action_spaces: ClassVar[tuple[type, ...]] = (gymnasium.spaces.Discrete, gymnasium.spaces.Box)
    unit_actions = True
    remembers = True
    _model: Any
    model_attributes = ("world", "actor", "critic", "action_size", "discrete", "encode", "imagine")
    logged_figures = ("obs_loss", "reward_loss", "continue_loss", "kl", "imagined_return", "return_range", "entropy")

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        policy, learn = cfg.policy, cfg.policy.learn
        if (kind := policy.other.replay_buffer.type) != "sequence_ends":
            raise ConfigError(f"policy.other.replay_buffer.type: policy 'dreamer' needs 'sequence_ends', got '{kind}'.")
        steps = (policy.collect.n_sample or cfg.env.collector_env_num) * policy.unroll_len
        if learn.update_per_collect is None and learn.update_per_step * steps < 1:
            raise ConfigError(
                f"policy.learn.update_per_step={learn.update_per_step} is less than one learner iteration for the "
                f"{steps} env steps of a collect: nothing would be learned; set it to at least {1 / steps:.3g}."
            )

    def _init_learn(self) -> None:
        learn = self._cfg.learn
        self._add_optimizer("world", self._model.world, learn.learning_rate_world)
        self._add_optimizer("actor", self._model.actor, learn.learning_rate_actor, eps=1e-5)
        self._add_optimizer("critic", self._model.critic, learn.learning_rate_critic, eps=1e-5)
        self._slow_critic = self._add_target("critic")
        self._percentiles = torch.zeros(2, dtype=self._dtype, device=self._device)

    def _prepare(self, batch: Batch) -> Batch:
        """Return sequences with `action` `[T, B, A]` as the world model takes it, and `prev_action` before each row."""
        shape = batch["episode_start"].shape
        batch = super()._prepare({**batch, "action": batch["action"].flatten(0, 1)})
        action = self._model.encode(batch["action"].unflatten(0, shape), self._dtype)
        return batch | {"action": action, "prev_action": _shift(action)}

    def _draw_noise(self, batch: Batch) -> dict[str, Any]:
        """Return noise for `WorldModel.forward`, of rows `[T, B, ...]`, and for `Dreamer.imagine`, `[L, T, B, ...]`."""
        rows = (self._cfg.unroll_len, len(batch["index"]))
        imagined, options = (self._cfg.imag_horizon, *rows), dict[str, Any](dtype=self._dtype, device=self._device)
        variables, size = self._model.world.rssm.variables[0], self._model.action_size
        action = torch.empty(*imagined, size, **options)
        action = action.exponential_().log_().neg_() if self._model.discrete else action.normal_()
        return {
            "rows": {name: torch.rand(*rows, variables, **options) for name in ("state", "final")},
            "imagined": {"state": torch.rand(*imagined, variables, **options), "action": action},
        }

    def _forward_learn(self, batch: Batch) -> Figures:
        output = self._optimizers["world"].step(self._world_loss, batch)
        imagined = self._imagine(output, batch)
        output = {key: value for key, value in output.items() if key not in ("deter", "stoch")}
        output |= self._optimizers["actor"].step(self._actor_loss, imagined)
        output |= self._optimizers["critic"].step(self._critic_loss, imagined)
        self._update_targets()
        return output | {"imagined_return": imagined["return_"], "return_range": imagined["range"]}

    def _world_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the world model's loss, and detached figures, with the states of the rows, `[T, B, ...]`."""
        learn, start_TB, index_K = self._cfg.learn, batch["episode_start"], batch["final_index"]
        output = self._run(
            self._model.world,
            batch["obs"],
            prev_action=batch["prev_action"],
            episode_start=start_TB,
            noise=batch["noise"]["rows"],
            final={"obs": self._to_device(batch["final_obs"]), "index": index_K, "action": batch["action"]},
        )
        reward_M, done_M, known_M = arrivals(batch, self._dtype)
        obs = tree_map(lambda rows, last: torch.cat([rows.flatten(0, 1), last]), batch["obs"], batch["final_obs"])
        parts = parts_of(obs, self._dtype)
        obs_error_M = sum((output["obs"][name] - parts[name]).square().flatten(1).sum(-1) for name in parts)
        reward_error_M = known_M * two_hot_error(output["reward"], reward_M)
        continue_error_M = known_M * functional.binary_cross_entropy_with_logits(
            output["continues"], 1.0 - done_M, reduction="none"
        )
        posterior, prior = output["posterior"], output["prior"]
        kl_M = kl_divergence(posterior.detach(), prior).sum(-1)
        back_M = kl_divergence(posterior, prior.detach()).sum(-1)
        free = learn.free_nats
        bounded_M = learn.dyn_scale * kl_M.clamp(min=free) + learn.rep_scale * back_M.clamp(min=free)
        loss = (learn.obs_scale * obs_error_M + reward_error_M + continue_error_M + bounded_M).sum() / start_TB.numel()
        figures = {
            "obs_loss": obs_error_M,
            "reward_loss": reward_error_M,
            "continue_loss": continue_error_M,
            "kl": kl_M,
        }
        return loss, {name: figure.detach() for name, figure in (figures | output["state"]).items()}

    @torch.no_grad()
    def _imagine(self, states: Output, batch: Batch) -> Batch:
        """Return what the actor and the critic learn from, `[L, I, ...]`, from states of the rows, `[T, B, ...]`."""
        state = {name: states[name].flatten(0, 1) for name in ("deter", "stoch")}
        noise = tree_map(lambda leaf: leaf.flatten(1, 2), batch["noise"]["imagined"])
        with evaluated(self._model):
            output = self._model.imagine(state, noise)
        feature = output.pop("feature")
        world, critic, slow = self._model.world, self._model.critic, self._slow_critic
        reward, continues = (self._run_frozen(network, feature[1:]) for network in (world.reward, world.continues))
        value, slow_value = (two_hot_mean(self._run_frozen(network, feature)) for network in (critic, slow))
        gamma = self._cfg.discount_factor * torch.sigmoid(continues.squeeze(-1))
        return_ = multistep_forward_view(value[1:], two_hot_mean(reward), gammas=gamma, lambda_=self._cfg.learn.lambda_)
        goes_on = 1.0 - _shift(batch["done"]).logical_and(~batch["episode_start"]).flatten().to(value.dtype)
        weight = torch.cat([goes_on[None], gamma[:-1]]).cumprod(0)
        range_ = self._update_range(return_)
        advantage = (return_ - value[:-1]) / range_.clamp(min=1.0)
        columns = {"weight": weight, "return_": return_, "adv": advantage, "slow_value": slow_value[:-1]}
        return output | columns | {"feature": feature[:-1], "range": range_}

    def _update_range(self, return_: Tensor) -> Tensor:
        """Return the range of imagined returns, after it has followed those of all ranks."""
        joined = torch.cat([part.to(return_) for part in all_gather_object(return_.flatten().cpu())])
        share = torch.tensor(PERCENTILES, dtype=return_.dtype, device=return_.device)
        self._percentiles.lerp_(torch.quantile(joined, share), RANGE_SHARE)
        return self._percentiles[1] - self._percentiles[0]

    def _actor_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        logit = obey_mask(self._run(self._model.actor, batch["feature"]), batch)
        logp, entropy = log_prob_entropy(logit, batch["action"])
        gain = batch["adv"] * logp + self._cfg.learn.actor_entropy * entropy
        return -(batch["weight"] * gain).mean(), {"entropy": entropy.detach()}

    def _critic_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        logit = self._run(self._model.critic, batch["feature"])
        slow_error = two_hot_error(logit, batch["slow_value"])
        error = two_hot_error(logit, batch["return_"]) + self._cfg.learn.slow_scale * slow_error
        return (batch["weight"] * error).mean(), {}

    def _state_dict_learn(self) -> dict[str, Any]:
        return super()._state_dict_learn() | {"percentiles": self._percentiles}

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super()._load_state_dict_learn(state)
        if "optimizer" in state:
            self._percentiles.copy_(state["percentiles"])

    # Acting. The memory of an episode is the state of the world model, and the action that was taken in it.

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        number = len(next(tree_leaves(obs)))
        noise_1NS = torch.rand(1, number, self._model.world.rssm.variables[0], dtype=self._dtype, device=self._device)
        output = self._run(self._model, obs, explore=True, noise={"state": noise_1NS})
        return output | {"action": self._remember(sample(output["logit"]), explore=True)}

    @torch.inference_mode()
    def _forward_eval(self, obs: Any) -> Output:
        output = self._run(self._model, obs, explore=False, noise={})
        return output | {"action": self._remember(mode(output["logit"]), explore=False)}

    def _remember(self, action: Any, explore: bool) -> Tensor:
        """Store the actions `[N, ...]` of the newest step, which the next one depends on; return them within bounds."""
        action = self._to_device(action)
        action = action if self._model.discrete else action.clamp(-1.0, 1.0)
        self._memory[explore]["state"]["action"] = self._model.encode(action, self._dtype)
        return action

    def _process_transition(self, obs: Any, policy_output: Output, timestep: SimpleNamespace) -> Row:
        self._remember(policy_output["action"], explore=True)  # it may have been replaced by a random one
        return super()._process_transition(obs, policy_output, timestep)


def _shift(column_TB: Tensor) -> Tensor:
    """Return a column whose rows have what the row before had, `[T, B, ...]`; the first one has zeros."""
    return torch.cat([torch.zeros_like(column_TB[:1]), column_TB[:-1]])


def arrivals(batch: Batch, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor]:
    """Return reward and end of the steps that led to M states, and whether they are known; all `[M]` of this type.

    They are not known of the first row of a sequence, and do not exist of the first one of an episode.
    """
    known_TB = ~batch["episode_start"]
    known_TB[0] = False
    index_K = batch["final_index"]
    columns = [batch["reward"], batch["done"]]
    pairs = [torch.cat([_shift(column).flatten(), column.flatten()[index_K]]).to(dtype) for column in columns]
    known_M = torch.cat([known_TB.flatten(), torch.ones_like(index_K, dtype=torch.bool)])
    return pairs[0], pairs[1], known_M.to(dtype)
