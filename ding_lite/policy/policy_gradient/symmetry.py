"""PPO for tasks that are their own mirror image (Mittal et al. 2024, arXiv:2403.04359): `policy.symmetry`.

M s is the mirror image of an observation, M a that of an action, and M M = 1. With `augment`, the loss is the mean of
PPO's loss of the samples and of their images. An image has the advantage, the return, and the old value of its sample,
and also its old probability, pi_old(M a | M s) = pi_old(a | s), although the policy that acted need not be symmetric.
With `loss_weight`, the loss also has the term

    loss_weight mean (mu(M s) - M mu(s))^2,

the mean over samples and dimensions. mu is the mean action, for discrete actions the probabilities, and no gradient
flows through M mu(s).

M is a function of the user's, `mirror(obs, action) -> (obs, action)`, of tensors `[B, ...]` or dicts of them. It gets
what the environment returned, or None if only actions are asked for, and actions as the policy chose them. The images
are normalised afterwards, by the statistics of their samples.

Shapes: B samples of a minibatch, M samples of a collect, A discrete actions.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.policy.base import Policy
from ding_lite.policy.policy_gradient.actor_critic import flatten_rows
from ding_lite.policy.sequences import find_core
from ding_lite.rl_utils.common import weighted_mean
from ding_lite.rl_utils.distribution import log_prob
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.utils.registry import WRAPPER_REGISTRY, ConfigError, UserError
from ding_lite.utils.tree import MASK, dotted_items, tree_map

Mirror = Callable[[Any, Any], tuple[Any, Any]]


@WRAPPER_REGISTRY.register("symmetry.mirror")
class SymmetryPolicy(Policy):
    """PPO with mirror images, as the first base class of a class whose second one is PPO's."""

    _map: Any = None  # what `action_map` returned, which losses find on the GPU; None before the first samples

    @classmethod
    def check_config(cls, cfg: EasyDict) -> None:
        super().check_config(cfg)
        policy, options = cfg.policy, cfg.policy.symmetry
        load_mirror(options.mirror)
        if not options.augment and not options.loss_weight:
            raise ConfigError("policy.symmetry has no effect: set augment=True, or loss_weight above 0, in it.")
        core = find_core(policy.model)
        if unfit := "multi_agent=True" if policy.multi_agent else core and f"model.{core}":
            raise ConfigError(f"policy.symmetry is not possible with policy.{unfit}: leave one out.")

    @functools.cached_property
    def _mirror(self) -> Mirror:  # a policy that only plays needs none
        return load_mirror(self._cfg.symmetry.mirror)

    def to_samples(self, block: Block) -> Batch:
        """Return what `Policy.to_samples` does, and the images `[M, ...]` of what the losses read, in `mirrored`.

        Raises:
            UserError: the function is no mirror of the first block's samples; those of a robot have a structure, such
                as unit quaternions, that samples of a space lack.
        """
        keys = ("obs", "action", "logit", "logit_pretrained")
        rows = flatten_rows({key: block[key] for key in keys if key in block})
        if self._map is None:
            check_mirror(self._mirror, rows, self._cfg.symmetry.mirror)
        images = apply(self._mirror, rows) | {key: self._image(rows[key]) for key in keys[2:] if key in rows}
        images["obs"] = self.normalizer.normalize_obs(images["obs"])
        return super().to_samples(block) | {"mirrored": images}

    def _targets(self, block: Block, epoch: int) -> dict[str, Any]:
        return super()._targets(block, epoch) | {"mirrored": block["mirrored"]}  # type: ignore[misc]  # PPO's

    def _image(self, logit: Any) -> Any:
        """Return the logit of the images of the actions that have this logit."""
        if self._map is None:
            self._map = action_map(self._mirror, logit)
        return mirror_logit(self._map, logit)

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures, which are those of the samples alone, for a batch with `mirrored`."""
        (loss, figures), options, mirrored = super()._loss(batch), self._cfg.symmetry, batch["mirrored"]
        if options.augment:
            loss = (loss + super()._loss(batch | mirrored)[0]) / 2
        if not options.loss_weight:
            return loss, figures
        with torch.no_grad():
            target = self._image(self._run(self._model, batch["obs"], mode="compute_actor")["logit"])
        logit = self._run(self._model, mirrored["obs"], mode="compute_actor")["logit"]
        square_B = (mean_action(logit) - mean_action(target)).square().mean(-1)
        symmetry_loss = weighted_mean(square_B, batch.get("weight"))
        return loss + options.loss_weight * symmetry_loss, figures | {"symmetry_loss": symmetry_loss.detach()}

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "symmetry_loss"]


def action_map(mirror: Mirror, logit: Any) -> Any:
    """Return the images `[A]` of discrete actions with this logit; of continuous ones c `[D]` and W: M a = c + a W."""
    if isinstance(logit, Tensor):
        return mirror(None, torch.arange(logit.shape[-1], device=logit.device))[1]
    basis = torch.eye(logit["mu"].shape[-1]).to(logit["mu"])
    shift_DD = mirror(None, torch.zeros_like(basis))[1]
    return shift_DD[0], mirror(None, basis)[1] - shift_DD


def mirror_logit(image: Any, logit: Any) -> Any:
    """Return the logit `[B, A]`, or `mu` and `sigma`, of the images of actions with this logit, see `action_map`."""
    if isinstance(logit, Tensor):  # M a is as likely as a, and M M = 1
        return logit[:, image]
    shift_D, turn_DD = (part.to(logit["mu"]) for part in image)
    return {"mu": shift_D + logit["mu"] @ turn_DD, "sigma": logit["sigma"] @ turn_DD.abs()}


def mean_action(logit: Any) -> Tensor:
    """Return the mean of a continuous action, or of a discrete one as a one-hot vector."""
    return logit.softmax(-1) if isinstance(logit, Tensor) else logit["mu"]


def load_mirror(path: str) -> Mirror:
    """Return the function 'module:function'."""
    module, _, name = path.partition(":")
    try:
        function: Mirror = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(
            f"policy.symmetry.mirror='{path}': expected 'module:function', such as 'my_project.robot:mirror': {error}."
        ) from error
    return function


def apply(mirror: Mirror, rows: Batch) -> dict[str, Any]:
    """Return the images of `obs` and `action`; the function may write into what it gets."""
    obs, action = mirror(*(tree_map(torch.clone, rows[key]) for key in ("obs", "action")))
    return {"obs": obs, "action": action}


def check_mirror(mirror: Mirror, rows: Batch, path: str) -> None:
    """Raise `UserError` if a function, 'module:function', is no mirror of samples `[M, ...]`."""
    try:
        problem = find_problem(mirror, rows) or find_unlikely(mirror, rows)
    except (TypeError, KeyError, IndexError, AttributeError, ValueError, RuntimeError) as error:
        problem = f"{type(error).__name__}: {' '.join(str(error).split())}"
    if problem:
        raise UserError(f"policy.symmetry.mirror='{path}' is no mirror of observations and actions: {problem}.")


def find_problem(mirror: Mirror, rows: Batch) -> str:
    """Return why images, or their images, do not fit samples; empty if they do."""
    if not isinstance(rows["logit"], Tensor) and "mu" not in rows["logit"]:
        return "only Discrete and Box actions have one"
    once = apply(mirror, rows)
    images, twice = (dict(dotted_items(tree)) for tree in (once, apply(mirror, once)))
    for name, leaf in dotted_items({key: rows[key] for key in ("obs", "action")}):
        if (got := images[name]).shape != leaf.shape or got.dtype != leaf.dtype:
            return f"expected an image of {name} of {leaf.dtype} {[*leaf.shape]}, got {got.dtype} {[*got.shape]}"
        if not torch.allclose(twice[name].double(), leaf.double(), rtol=1e-4, atol=1e-4):
            return f"the image of the image of {name} is not {name}"
    return ""


def find_unlikely(mirror: Mirror, rows: Batch) -> str:
    """Return why images of actions are not as likely under the image of their `logit`; empty if they are."""
    obs, logit, images, image = rows["obs"], rows["logit"], apply(mirror, rows), action_map(mirror, rows["logit"])
    if isinstance(logit, Tensor):
        if image[image].tolist() != [*range(len(image))]:
            return f"expected pairs of actions, but 0 to {len(image) - 1} become {image.tolist()}"
        if isinstance(obs, dict) and MASK in obs and not torch.equal(images["obs"][MASK], obs[MASK][:, image]):
            return f"the image of obs.{MASK} does not allow the images of the allowed actions"
    own, others = log_prob(logit, rows["action"]), log_prob(mirror_logit(image, logit), images["action"])
    same = torch.allclose(own, others, rtol=1e-2, atol=1e-2)
    return "" if same else "an action's image is more or less likely than the action: only swap and negate dimensions"
