"""Distillation: a student acts, and learns what its teacher would do (DAgger, Ross et al. 2011, arXiv:1011.0686).

    L = mean KL(pi*(. | s) || pi(. | s'))     discrete actions, of several the sum over the branches
    L = mean |a*(s) - mu(s')|^2               continuous actions, mean over the dimensions; or Huber's error

s are the observations of states that the student, or with the probability `teacher_share` its teacher, has come to, and
s' what the student sees of them. pi* is the policy of a teacher that is an actor-critic or learned with `pg`. Of any
other, such as one that returns values, pi* is 1 for the action that it plays. a* is the teacher's best action.

Logged figures are those of behaviour cloning, see `bc.py`: `accuracy`, `action_error`.

Shapes: T steps, N environments, M = T N samples, B samples of a minibatch, A actions, D dimensions or branches.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
from easydict import EasyDict
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional

from ding_lite.config.saved import read_saved_run
from ding_lite.config.shapes import KINDS
from ding_lite.model.actor_heads import create_actor_head
from ding_lite.model.arguments import ActionShape, ObsShape, with_arguments_of
from ding_lite.model.masks import obey_mask
from ding_lite.model.recurrent import CoreChoice, LSTMType, create_core, run_core
from ding_lite.model.vac import PG, ActorCritic
from ding_lite.policy.base import Policy
from ding_lite.policy.common_keys import EPOCH_KEYS, LEARNING_RATE_KEYS, ROLLOUT_KEYS
from ding_lite.policy.policy_gradient.actor_critic import flatten_rows
from ding_lite.policy.sequences import by_environment, find_core, sequence_minibatches
from ding_lite.results.run import find_checkpoint, find_exp_dir
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import kl_divergence, mode, sample
from ding_lite.torch_utils.data import Batch, Block, Figures, Output
from ding_lite.torch_utils.minibatch import minibatches, rank_sizes
from ding_lite.utils.directory_lock import CONFIG
from ding_lite.utils.key import Groups, Key
from ding_lite.utils.ranks.collectives import alone
from ding_lite.utils.registry import MODEL_REGISTRY, POLICY_REGISTRY, ConfigError
from ding_lite.utils.tree import dotted_items, tree_leaves, tree_map

PATH = "policy.learn.teacher_path"
LOSSES: dict[str, Any] = {"mse_loss": functional.mse_loss, "huber_loss": functional.huber_loss}


@MODEL_REGISTRY.register("student")
class Student(ActorCritic):
    """A policy without a value, which may see less than its teacher; for all actions but hybrid ones.

    Args:
        action_shape: number of actions if 'discrete', of each branch's options if 'multi_discrete', else of dimensions.
        action_space: 'discrete', 'multi_discrete' or 'continuous'.
        encoder_hidden_size_list: sizes of the encoder's layers; for images three convolutions' channels, then the dense
            layer's size.
        actor_head_layer_num: hidden layers in the policy's head before its output.
        teacher_obs: keys of a dict of observations that only the teacher sees; of nested dicts, dotted paths.
        sigma: standard deviation of continuous actions while collecting, which is not learned.
        lstm_type: put a recurrent core after the encoder: 'lstm', 'gru' or 'normal', see `RecurrentCore`. The
            observations are then sequences. None: none.
        memory: 'gtrxl' puts a transformer with memory there instead, see `create_core`.
        **options: see `ActorCritic`.
    """

    first_layers: ClassVar[int] = 0
    hidden_key: ClassVar[str] = "teacher_obs"

    @with_arguments_of(ActorCritic, without=("critic_obs", "critic_head_hidden_size", "critic_head_layer_num"))
    def __init__(
        self,
        obs_shape: ObsShape,
        action_shape: ActionShape,
        action_space: str = "discrete",
        encoder_hidden_size_list: Sequence[int] = (128, 128, 64),
        *,
        teacher_obs: list[str] | None = None,
        sigma: float = 0.1,
        lstm_type: LSTMType | None = None,
        memory: CoreChoice = None,
        **options: Any,
    ) -> None:
        options["encoder_hidden_size_list"] = encoder_hidden_size_list
        super().__init__(obs_shape, critic_obs=teacher_obs, **options)
        self.encoder, size = self.new_encoder("actor"), self.actor_features
        self.core = create_core(size, lstm_type, memory) if lstm_type or memory else None
        fixed: dict[str, Any] = dict(sigma_type="fixed", fixed_sigma_value=sigma)
        sizes = [size, *self.actor_sizes]
        self.head = create_actor_head(sizes, action_shape, action_space, **fixed, **self.layer_options)

    def forward(self, obs: Any, prev_state: Any = None, **sequence: Any) -> dict[str, Any]:  # type: ignore[override]
        """Return a dict with `logit`, whose form is that of `VAC`, for observations `[B, ...]`; there is one mode.

        With a recurrent core, observations and outputs are sequences `[T, B, ...]`; `run_core` describes the other
        arguments, and the states in the result.
        """
        if self.core is None:
            return {"logit": obey_mask(self.head(self.encoder(obs)), obs)}
        y_TBF, _, states = run_core(self.encoder, self.core, obs, prev_state, **sequence)
        return {"logit": obey_mask(self.head(y_TBF), obs), **states}


class Teacher:
    """The trained policy of a run, with the config, the keys and the normaliser that it learned with.

    Args:
        path: the directory of a run, for its best checkpoint, or a checkpoint in its ckpt folder. Every rank reads it.
        model: the keys `policy.model` of the student.
        device: where the teacher computes.

    Raises:
        ConfigError: there is no such run, it is recurrent, or its environment had other observations or actions.
    """

    def __init__(self, path: str, model: EasyDict, device: torch.device) -> None:
        if not path:
            raise ConfigError(f"{PATH} is not set: expected a run's directory, or a checkpoint, of the teacher.")
        repeats = torch.backends.cudnn.deterministic
        trained: Any = importlib.import_module("ding_lite.trained.agent")  # it imports the list that has this policy
        try:
            with alone():
                agent = trained.load(path, device.type)
        except ConfigError as error:
            raise ConfigError(f"{PATH}: {error}") from error
        torch.backends.cudnn.deterministic = repeats  # as this run's config says, not the teacher's
        self.policy, self._shapes = agent.policy, agent.config.policy.model.get("obs_shape")
        self.policy.model.requires_grad_(False)
        self._is_distribution = isinstance(agent.policy.model, ActorCritic | PG)
        if mistake := _find_mistake(agent, model):
            raise ConfigError(f"{PATH}: the policy of '{path}' {mistake}.")

    def act(self, obs: Any) -> Output:
        """Return `action` `[M]` or `[M, D]`, and `label`, what a student learns, for observations of an environment.

        The label is the action if it is continuous, else a logit of the teacher's policy, see the top of this file.
        """
        seen = tree_map(lambda _, leaf: leaf, self._shapes, obs) if isinstance(self._shapes, Mapping) else obs
        output = self.policy.act(seen, explore=False)
        action, logit = output["action"], output.get("logit")
        if action.is_floating_point() or self._is_distribution:
            return {"action": action, "label": action if action.is_floating_point() else logit}
        values: Any = logit["branches"] if isinstance(logit, Mapping) else logit
        played = torch.full_like(values, -torch.inf).scatter(-1, action[..., None], 0.0)
        return {"action": action, "label": {"branches": played} if isinstance(logit, Mapping) else played}


def _find_mistake(agent: Any, student: EasyDict) -> str:
    """Return why an agent cannot teach a student with these keys `policy.model`; empty if it can."""
    policy, model = agent.policy, agent.config.policy.model
    if policy.remembers or type(policy).see_reward is not Policy.see_reward:
        return "is recurrent: choose one that acts on single observations"
    space, kind, actions = agent.spec.action_space, student.get("action_space"), student.get("action_shape")
    if not isinstance(space, KINDS.get(kind, object)) or model.get("action_shape", actions) != actions:
        return f"chooses actions of {space}, but this environment's are {kind}, {actions}: choose one with the same"
    wanted, given = (_sizes(each.get("obs_shape")) for each in (model, student))
    other = next((path for path in wanted if given and given.get(path) != wanted[path]), None)
    shown = ", ".join(f"{path} {size}" for path, size in given.items())
    return f"sees {other} {wanted[other]}, but this environment returns {shown}: choose one that fits" if other else ""


def _sizes(shape: ObsShape | None) -> dict[str, list[int]]:
    """Return the shapes of all parts of an observation by their dotted paths, as lists; none for None."""
    parts = {} if shape is None else dict(dotted_items({"obs": shape}))
    return {path: [part] if isinstance(part, int) else list(part) for path, part in parts.items()}


@POLICY_REGISTRY.register("distill")
class DistillPolicy(Policy):
    """Learns to act as a teacher does, on what it collects itself. Override `_loss` to change the objective."""

    key_groups: ClassVar[Groups] = (ROLLOUT_KEYS, LEARNING_RATE_KEYS, EPOCH_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="distill",
        loss_type=Key(
            "mse_loss", "loss of continuous actions: their squared, or Huber's, error", choices=tuple(LOSSES)
        ),
        learn=dict(
            teacher_path=Key("", "the teacher: the directory of a trained policy's run, or a checkpoint in it"),
            epoch_per_collect=4,
            grad_clip_type="clip_norm",
        ),
        collect=dict(
            teacher_share=Key(0.0, "DAgger's beta: probability that a step is the teacher's action", low=0, high=1),
        ),
    )
    model_type = "student"
    learns_from = "collect"
    action_spaces = (spaces.Discrete, spaces.MultiDiscrete, spaces.Box)
    stored_outputs = ("prev_state",)
    recurrent: ClassVar[bool] = True  # whether its model may have a recurrent core
    logged_figures = ("accuracy", "action_error")
    teacher: Teacher | None = None  # of a policy that learns

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        collect, path = cfg.policy.collect, cfg.policy.learn.teacher_path
        if collect.actors and collect.teacher_share:
            raise ConfigError(
                "policy.collect.teacher_share: the teacher plays only where the ranks do: set policy.collect.actors=0, "
                "or leave teacher_share out."
            )
        if not os.path.exists(path):
            return  # an error where the teacher is loaded; a student that only acts does without it
        saved = read_saved_run(os.path.join(find_exp_dir(find_checkpoint(path)), CONFIG)).main_config
        if (scaled := saved["env"].get("act_scale", cfg.env.act_scale)) != cfg.env.act_scale:
            raise ConfigError(f"{PATH}: the teacher's actions have the units of env.act_scale={scaled}: set that too.")

    def __init__(self, cfg: EasyDict, *args: Any, **kwargs: Any) -> None:
        self.remembers = find_core(cfg.model) is not None
        super().__init__(cfg, *args, **kwargs)

    def _init_learn(self) -> None:
        super()._init_learn()
        self.teacher = Teacher(self._cfg.learn.teacher_path, self._cfg.model, self._device)

    def act(self, obs: Any, explore: bool = True, **kwargs: Any) -> Output:
        """Act as a `Policy`; in a collect, a part of the actions is the teacher's, which normalises `obs` itself."""
        output, share = super().act(obs, explore, **kwargs), self._cfg.collect.teacher_share
        if not explore or self.teacher is None or not share:
            return output
        action = output["action"]
        taught_N = (torch.rand(len(action)) < share).view(-1, *[1] * (action.ndim - 1)).to(action.device)
        return output | {"action": torch.where(taught_N, self.teacher.act(obs)["action"].to(action), action)}

    def to_samples(self, block: Block) -> Batch:
        """Add the teacher's labels of all rows, which it gives for observations as the environment returned them."""
        assert self.teacher is not None
        label = self.teacher.act(flatten_rows(block["obs"]))["label"]
        # A clone of a tensor of inference mode may be part of a loss.
        label_TN = tree_map(lambda leaf: leaf.clone().unflatten(0, block["reward"].shape), label)
        return super().to_samples({**block, "label": label_TN})

    def _batches(self, samples: Batch) -> Iterator[Batch]:
        keys = ("obs", "label", *(("prev_state", "episode_step") if self.remembers else ()))
        rows = self._to_device({key: samples[key] for key in keys})
        samples_M = by_environment(rows) if self.remembers else flatten_rows(rows)
        sizes = rank_sizes(len(next(tree_leaves(samples_M))))
        cut = sequence_minibatches if self.remembers else minibatches
        for _ in range(self._cfg.learn.epoch_per_collect):
            yield from cut(samples_M, self._cfg.learn.batch_size, sizes)

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        states = {key: batch[key] for key in ("prev_state", "episode_start") if key in batch}
        logit, label = self._run(self._model, batch["obs"], **states)["logit"], batch["label"]
        logit = flatten_rows(logit) if self.remembers else logit
        action: Any = mode(logit)
        if action.is_floating_point():
            error_B = LOSSES[self._cfg.loss_type](action, label, reduction="none").mean(-1)
            figures = {"action_error": (action.detach() - label).abs()}
        else:
            error_B = kl_divergence(label, logit)
            figures = {"accuracy": (action == mode(label)).to(error_B.dtype)}
        return weighted_mean(error_B, batch.get("weight")), figures

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = self._run(self._model, obs, explore=True)
        return output | {"action": sample(output["logit"])}
