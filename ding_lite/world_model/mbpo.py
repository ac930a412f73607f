"""Model-based policy optimization, MBPO (Janner et al. 2019, arXiv:1906.08253).

An ensemble of probabilistic networks learns the reward and the change of the observation:

    (r, s' - s) ~ N(mu_e(s, a), sigma_e(s, a)),  L = sum_e mean((y - mu_e)^2 / sigma_e^2 + log sigma_e^2)

Inputs are standardised, y is not. From states of replay the policy acts for k steps in the model; each step of each
rollout is predicted by one of the members with the smallest holdout errors, drawn anew. The policy learns from batches
of real and imagined steps.

Shapes: M steps of this rank, B samples, E members, L elites, I numbers of an input, O of an observation, A of an
action, F of an output: the reward, then the change.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from easydict import EasyDict
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.policy import Policy
from ding_lite.run.pipelines import refuse_actors
from ding_lite.run.setup import RunSetup
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.torch_utils.minibatch import rank_sizes
from ding_lite.torch_utils.optimizer import Loss
from ding_lite.torch_utils.optimizer_step import OptimizerStep
from ding_lite.torch_utils.switches import frozen
from ding_lite.utils.key import Key, with_option
from ding_lite.utils.ranks.collectives import allreduce_data, get_rank, get_world_size
from ding_lite.utils.ranks.heartbeat import heartbeat
from ding_lite.utils.ranks.launch_environment import share
from ding_lite.utils.registry import WORLD_MODEL_REGISTRY, ConfigError
from ding_lite.worker import ReplayBuffer, TransitionView
from ding_lite.world_model.base import WorldModel
from ding_lite.world_model.ensemble import Ensemble, nll
from ding_lite.world_model.imagination import COLUMNS, Imagination, MixedReplay
from ding_lite.world_model.termination import NO_FUNCTION, Termination

DECAYS = (2.5e-5, 5e-5, 7.5e-5, 7.5e-5, 1e-4)  # weights of half the squared norm of each layer
NUM_HIDDEN = len(DECAYS) - 1
IMPROVEMENT = 0.01  # share by which a holdout error must fall to count
AT_ONCE = 8192  # samples whose steps are predicted together


@WORLD_MODEL_REGISTRY.register("mbpo")
class MBPOWorldModel(WorldModel):
    """An ensemble, and what it imagines. Numbers of samples in its config are those of all ranks together.

    Attributes:
        mixed: yields the batches that the policy learns from.
        horizon: k of now.
        size: E.
    """

    config: ClassVar[dict[str, Any]] = dict(
        type="mbpo",
        termination_fn=Key(
            "", "'module:function' that says which steps are terminal; empty: the environment's method of this name"
        ),
        rollout_length_scheduler=dict(
            type=Key(
                "linear",
                "'linear': rollouts become longer with the env steps; 'constant'",
                choices=("linear", "constant"),
            ),
            **with_option(
                "type=linear",
                dict(
                    rollout_start_step=Key(20000, "env steps of all ranks after which rollouts grow", low=0),
                    rollout_end_step=Key(150000, "env steps of all ranks after which they are longest", low=1),
                    rollout_length_min=Key(1, "steps of a rollout at first", low=1),
                    rollout_length_max=Key(25, "steps of a rollout at last", low=1),
                ),
            ),
            rollout_length=Key(1, "steps of a rollout", low=1, needs="type=constant"),
        ),
        model=dict(
            ensemble_size=Key(7, "E: networks", low=1),
            elite_size=Key(5, "L: networks with the smallest holdout errors, which imagine", low=1),
            hidden_size=Key(200, f"size of each of the {NUM_HIDDEN} hidden layers", low=1),
            use_decay=Key(False, f"add {', '.join(map(str, DECAYS))} times half the squared weights of the layers"),
            batch_size=Key(256, "steps of each member and update", low=1),
            holdout_ratio=Key(0.2, "share of the steps that no member learns from", above=0, below=1),
            max_epochs_since_update=Key(5, "epochs without a better holdout error after which training ends", low=0),
            deterministic_rollout=Key(True, "imagine the mean; False: draw from the normal distribution"),
        ),
        other=dict(
            real_ratio=Key(0.05, "share of real steps in a batch of the policy", above=0, high=1),
            rollout_batch_size=Key(100000, "states in which rollouts begin after each training", low=1),
            rollout_retain=Key(4, "trainings whose imagined steps are kept", low=1),
        ),
    )

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        model, schedule = cfg.world_model.model, cfg.world_model.rollout_length_scheduler
        if model.elite_size > model.ensemble_size:
            raise ConfigError(
                f"world_model.model.elite_size={model.elite_size} is more than ensemble_size={model.ensemble_size}."
            )
        if schedule.type == "linear" and schedule.rollout_start_step >= schedule.rollout_end_step:
            raise ConfigError("world_model.rollout_length_scheduler: expected rollout_start_step < rollout_end_step.")
        if cfg.policy.get("priority"):
            raise ConfigError("policy.priority=True does not work with a world model, whose steps have no priorities.")
        refuse_actors(cfg, "a world model")

    def _init_networks(self) -> None:
        space, model, name = self._observation_space, self._cfg.model, "world_model.type 'mbpo'"
        if not isinstance(space, Box) or len(space.shape) != 1 or not np.issubdtype(space.dtype, np.floating):
            raise ConfigError(f"{name} predicts vectors of floats, without masks, got observations of {space}.")
        if not isinstance(self._action_space, Box | Discrete | MultiDiscrete):
            raise ConfigError(f"{name} needs Box, Discrete or MultiDiscrete actions, got {self._action_space}.")
        choices: Any = getattr(self._action_space, "nvec", getattr(self._action_space, "n", ()))
        self._choices = [int(number) for number in np.ravel(choices)]  # empty for a Box
        size = space.shape[0]
        num_inputs = size + (sum(self._choices) or int(np.prod(self._action_space.shape or ())))
        self._sizes = [num_inputs, *[model.hidden_size] * NUM_HIDDEN, 1 + size]
        self._network = Ensemble(model.ensemble_size, self._sizes, model.elite_size).to(self._device)
        self._optimizer = self._add_optimizer("network", self._network)
        self.horizon, self.size = 0, int(model.ensemble_size)
        self._imagination = Imagination(self._cfg.other.rollout_retain)
        self._imagined_at = -1  # `_trained_at` when it last imagined

    def connect(self, setup: RunSetup, policy: Policy, replay: ReplayBuffer | None) -> None:
        super().connect(setup, policy, replay)
        assert replay is not None
        unknown = {*policy.required_columns, *policy.stored_outputs} - {*COLUMNS}
        if type(replay.view) is not TransitionView or replay.ring.stack > 1 or policy.remembers or unknown:
            raise ConfigError(
                f"A world model imagines steps, but policy '{setup.cfg.policy.type}' with this replay buffer learns "
                "from something else: take a policy that learns from transitions, such as 'dqn', 'td3' or 'sac'."
            )
        self._terminates = Termination(setup, self._cfg.termination_fn)
        self.mixed = MixedReplay(replay, self._imagination, self._cfg.other.real_ratio, policy)

    def rollout_length(self, envstep: int) -> int:
        """Return k after `envstep` env steps of all ranks."""
        cfg = self._cfg.rollout_length_scheduler
        if cfg.type == "constant":
            return int(cfg.rollout_length)
        low, high = cfg.rollout_length_min, cfg.rollout_length_max
        progress = (envstep - cfg.rollout_start_step) / (cfg.rollout_end_step - cfg.rollout_start_step)
        return int(low + (high - low) * min(max(progress, 0.0), 1.0))

    # Learning.

    def train(self, envstep: int) -> bool:
        self.horizon, self._envstep = self.rollout_length(envstep), envstep
        return super().train(envstep)

    def encode_action(self, action: Tensor) -> Tensor:
        """Return what the networks get of actions `[..., *]` in the policy's units: `[..., A]`, within the bounds."""
        if not self._choices:
            return action.clamp(-1.0, 1.0) if self._policy.unit_actions else action
        dims = action.unsqueeze(-1) if isinstance(self._action_space, Discrete) else action
        parts = zip(dims.long().unbind(-1), self._choices, strict=True)
        return torch.cat([F.one_hot(part, number) for part, number in parts], dim=-1).float()

    def _steps(self, place_M: Tensor) -> dict[str, Tensor]:
        """Return `COLUMNS` of the steps at these places of replay, `[M, ...]`."""
        ring = self._replay.ring
        steps = {key: ring.columns[key].index_select(0, place_M) for key in ("action", "reward", "done")}
        own: dict[str, Tensor] = self._to_device(
            steps | {"obs": ring.observations(place_M), "next_obs": ring.successors(place_M)}
        )
        return own

    def _places(self, row_M: np.ndarray, env_M: np.ndarray) -> Tensor:
        place_M: np.ndarray = self._replay.ring.places(row_M, env_M)
        return torch.from_numpy(place_M).to(self._replay.ring.device)

    def _learn(self) -> dict[str, Tensor]:
        """Train on all of replay; the scale of inputs is that of the data."""
        cfg, ring = self._cfg.model, self._replay.ring
        starts = ring.starts(1)
        order_M = self._places(*np.divmod(np.arange(len(starts) * ring.num_envs), ring.num_envs))
        steps = self._steps(order_M[torch.randperm(len(order_M)).to(order_M.device)])
        if self._terminates.function is None and allreduce_data(int(steps["done"].any())):
            raise ConfigError(NO_FUNCTION)
        input_MI = torch.cat([steps["obs"], self.encode_action(steps["action"])], dim=-1)
        target_MF = torch.cat([steps["reward"][:, None], steps["next_obs"] - steps["obs"]], dim=-1)
        num_holdout = max(1, int(len(input_MI) * cfg.holdout_ratio))
        holdout = {"input": input_MI[:num_holdout], "target": target_MF[:num_holdout]}
        data = {"input": input_MI[num_holdout:], "target": target_MF[num_holdout:]}
        return self._learn_from(data, holdout)

    def _learn_from(self, data: Batch, holdout: Batch) -> dict[str, Tensor]:
        """Train on `input` `[M, I]` and `target` `[M, F]`; return figures."""
        figures = self._fit(self._network, self._optimizer, self._loss, data, holdout)
        return {"loss": figures.pop("network_loss"), **figures}

    def _fit(
        self, network: Ensemble, optimizer: OptimizerStep, loss: Loss, data: Batch, holdout: Batch
    ) -> dict[str, Tensor]:
        """Train each member to its smallest holdout error, and find the elites; return figures.

        It ends when no member's holdout error, over all ranks, has fallen for `max_epochs_since_update` epochs.
        """
        sizes = rank_sizes(len(data["input"]))
        network.scale.count.zero_()  # forgets the older statistics
        network.scale.update(data["input"])
        best_E = torch.full_like(self._holdout_error(network, holdout), torch.inf)
        best = [parameter.detach().clone() for parameter in network.parameters()]
        waited = epochs = 0
        while waited <= self._cfg.model.max_epochs_since_update:
            heartbeat("world model")
            for batch in self._epoch(optimizer, data, sizes):
                output = optimizer.step(loss, batch)
            error_E = self._holdout_error(network, holdout)
            better_E = error_E < (1 - IMPROVEMENT) * best_E  # errors cover all ranks, so they agree
            best_E = torch.where(better_E, error_E, best_E)
            for kept, parameter in zip(best, network.parameters(), strict=True):
                kept[better_E] = parameter.detach()[better_E]
            waited, epochs = 0 if better_E.any() else waited + 1, epochs + 1
        with torch.no_grad():
            for kept, parameter in zip(best, network.parameters(), strict=True):
                parameter.copy_(kept)
        error_E = self._holdout_error(network, holdout)
        network.elites.copy_(error_E.argsort(stable=True)[: len(network.elites)])
        figures = {"holdout_mse": error_E[network.elites].mean(), "holdout_mse_worst": error_E.max()}
        return output | figures | {"epochs": torch.tensor(float(epochs))}

    def _epoch(self, optimizer: OptimizerStep, data: Batch, sizes: list[int]) -> Iterator[Batch]:
        """Yield the batches of one pass, as many on every rank; each member has an order of its own.

        Args:
            optimizer: gets the weight of each batch.
            data: `input` `[M, I]` and `target` `[M, F]`.
            sizes: M of every rank.
        """
        number = min(max(1, round(sum(sizes) / self._cfg.model.batch_size)), min(sizes))
        order_EM = torch.rand(self.size, sizes[get_rank()]).argsort(1).to(self._device)
        for k, index_EB in enumerate(order_EM.tensor_split(number, dim=1)):
            total = sum(len(share(size, k, number)) for size in sizes)
            optimizer.weight = index_EB.shape[1] * get_world_size() / total
            yield {key: column[index_EB] for key, column in data.items()}

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss of `input` `[E, B, I]` and `target` `[E, B, F]`."""
        return self._likelihood(self._network, batch), {}

    def _likelihood(self, network: Ensemble, batch: Batch) -> Tensor:
        """Return L of an ensemble, with its weight decay, a scalar."""
        mean_EBF, logvar_EBF = network(batch["input"])
        loss = nll(mean_EBF, logvar_EBF, batch["target"])
        if self._cfg.model.use_decay:
            pairs = zip(DECAYS, network.weights, strict=True)
            loss = loss + torch.stack([0.5 * decay * weight.square().sum() for decay, weight in pairs]).sum()
        return loss

    @torch.no_grad()
    def _holdout_error(self, network: Ensemble, holdout: Batch) -> Tensor:
        """Return the mean squared error of each member, `[E]` float64, over the samples of all ranks."""
        pieces = zip(holdout["input"].split(AT_ONCE), holdout["target"].split(AT_ONCE), strict=True)
        errors = [(network(x.expand(self.size, *x.shape))[0] - y).square().mean(-1).sum(-1) for x, y in pieces]
        count = torch.tensor(float(len(holdout["input"])), device=self._device)
        total = allreduce_data({"error": torch.stack(errors).sum(0).double(), "count": count})
        error_E: Tensor = total["error"] / total["count"]
        return error_E

    # Imagining.

    def step(
        self, obs_BO: Tensor, action_BA: Tensor, draw_B: Tensor, noise_BF: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rewards `[B]`, the next observations `[B, O]`, and whether these are terminal, bool `[B]`.

        Gradients flow to observations and actions, and not to the networks.

        Args:
            obs_BO: the observations, not normalised.
            action_BA: the actions, see `encode_action`.
            draw_B: numbers between 0 and 1 drawn at random. In their order, the samples are dealt to the elites in
                equal parts, each of which computes only its own.
            noise_BF: standard normal numbers; None: the mean is predicted.
        """
        elites, order_B = self._network.elites, draw_B.argsort()
        more = -len(order_B) % len(elites)  # rows that fill up the last part
        input_BI = F.pad(torch.cat([obs_BO, action_BA], -1)[order_B], (0, 0, 0, more))
        output = self._predict(input_BI.unflatten(0, (len(elites), -1)), elites)
        mean_BF, logvar_BF = (part.flatten(0, 1)[order_B.argsort()] for part in output)
        if noise_BF is not None:
            mean_BF = mean_BF + noise_BF * (0.5 * logvar_BF).exp()
        return self._outcome(obs_BO, action_BA, mean_BF)

    def step_all(self, obs_EBO: Tensor, action_EBA: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return what `step` does, for each member with observations of its own: `[E, B, *]`, without noise."""
        mean_EBF, _ = self._predict(torch.cat([obs_EBO, action_EBA], -1))
        return self._outcome(obs_EBO, action_EBA, mean_EBF)

    def _predict(self, input_LBI: Tensor, members: Tensor | slice = slice(None)) -> tuple[Tensor, Tensor]:
        """Return what `Ensemble.forward` does; gradients flow to the inputs alone."""
        with frozen(self._network):
            mean_LBF, logvar_LBF = self._network(input_LBI, members)
        return mean_LBF, logvar_LBF

    def _outcome(self, obs: Tensor, action: Tensor, output: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        next_obs = obs + output[..., 1:]
        return output[..., 0], next_obs, self._terminates(obs=obs, action=action, next_obs=next_obs)

    @torch.no_grad()
    def imagine(self, envstep: int) -> None:
        """Play rollouts of k steps in the model, if it was trained since the last call; no collective call.

        Args:
            envstep: env steps of all ranks so far.
        """
        if self._imagined_at == self._trained_at:
            return
        self._imagined_at, number = self._trained_at, self._cfg.other.rollout_batch_size
        starts, num_envs = self._replay.ring.starts(1), self._replay.ring.num_envs
        own = max(1, len(share(number, get_rank(), get_world_size())))
        drawn_B = torch.randint(len(starts) * num_envs, (own,))
        obs_BO = self._steps(self._places(*np.divmod(drawn_B.numpy(), num_envs)))["obs"]
        parts = [self._rollouts(part, self.rollout_length(envstep), envstep) for part in obs_BO.split(AT_ONCE)]
        self._imagination.push({key: torch.cat([part[key] for part in parts]) for key in COLUMNS})

    def _rollouts(self, obs_BO: Tensor, length: int, envstep: int) -> dict[str, Tensor]:
        """Return the imagined steps of rollouts from these observations, `[M, ...]`; they end at terminal steps."""
        policy, rows = self._policy, list[dict[str, Tensor]]()
        alive_B = torch.ones(len(obs_BO), dtype=torch.bool, device=self._device)
        memory, policy._memory[True] = policy._memory[True], {}  # its noise may have a state of the running episodes
        kwargs = policy._begin_collect(envstep)  # `begin_collect` would count a collect
        for _ in range(length):
            action = policy.act(obs_BO, **kwargs)["action"].clone()
            noise_BF = None
            if not self._cfg.model.deterministic_rollout:
                noise_BF = torch.randn(len(obs_BO), 1 + obs_BO.shape[1]).to(self._device)
            draw_B = torch.rand(len(obs_BO)).to(self._device)
            reward_B, next_BO, done_B = self.step(obs_BO, self.encode_action(action), draw_B, noise_BF)
            row = {"obs": obs_BO, "action": action, "reward": reward_B, "next_obs": next_BO, "done": done_B}
            rows.append({key: column[alive_B] for key, column in row.items()})
            alive_B = alive_B & ~done_B
            obs_BO = torch.where(alive_B[:, None], next_BO, obs_BO)  # what goes on after an end may be any number
        policy._memory[True] = memory
        return {key: torch.cat([row[key] for row in rows]) for key in COLUMNS}

    # State.

    def local_state_dict(self) -> dict[str, Any]:
        saved = self._policy_cfg.learn.learner.hook.save_replay_buffer and self._imagined_at >= 0
        return super().local_state_dict() | ({"own": self._imagination.state_dict()} if saved else {})

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        super().load_local_state_dict(state)
        if "own" in state:  # else it imagines anew before the policy learns
            self._imagination.load_state_dict(state["own"], self._device)
            self._imagined_at = self._trained_at
