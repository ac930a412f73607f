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

    _checked = False  # whether the mirror was tried

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
        logits = [key for key in ("logit", "logit_pretrained") if key in block]
        rows = flatten_rows({key: block[key] for key in ("obs", "action", *logits)})
        if not self._checked:
            check_mirror(self._mirror, rows, self._cfg.symmetry.mirror)
            self._checked = True
        images = apply(self._mirror, rows) | {key: mirror_logit(self._mirror, rows[key]) for key in logits}
        images["obs"] = self.normalizer.normalize_obs(images["obs"])
        return super().to_samples(block) | {"mirrored": images}

    def _targets(self, block: Block, epoch: int) -> dict[str, Any]:
        targets_M: dict[str, Any] = super()._targets(block, epoch)  # type: ignore[misc]  # PPO's
        return targets_M | {"mirrored": block["mirrored"]}

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the loss and detached figures, which are those of the samples alone, for a batch with `mirrored`."""
        (loss, figures), options, mirrored = super()._loss(batch), self._cfg.symmetry, batch["mirrored"]
        if options.augment:
            loss = (loss + super()._loss(batch | mirrored)[0]) / 2
        if not options.loss_weight:
            return loss, figures
        with torch.no_grad():
            target = mirror_logit(self._mirror, self._run(self._model, batch["obs"], mode="compute_actor")["logit"])
        logit = self._run(self._model, mirrored["obs"], mode="compute_actor")["logit"]
        square_B = (mean_action(logit) - mean_action(target)).square().mean(-1)
        symmetry_loss = weighted_mean(square_B, batch.get("weight"))
        return loss + options.loss_weight * symmetry_loss, figures | {"symmetry_loss": symmetry_loss.detach()}

    def _monitor_vars_learn(self) -> list[str]:
        return [*super()._monitor_vars_learn(), "symmetry_loss"]


def mirror_logit(mirror: Mirror, logit: Any) -> Any:
    """Return the logit `[B, A]`, or `mu` and `sigma`, of the images of the actions that have this logit."""

    def image(action: Tensor) -> Tensor:
        return mirror(None, action)[1]

    if isinstance(logit, Tensor):  # M a is as likely as a, and M M = 1
        return logit[:, image(torch.arange(logit.shape[-1], device=logit.device))]
    spread = image(logit["sigma"]) - image(torch.zeros_like(logit["sigma"]))  # M may add a constant
    return {"mu": image(logit["mu"]), "sigma": spread.abs()}


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
    """Return the images of `obs` and `action`."""
    obs, action = mirror(rows["obs"], rows["action"])
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
    given = {key: rows[key] for key in ("obs", "action")}
    kept = tree_map(torch.clone, given)
    once = apply(mirror, given)
    twice = apply(mirror, tree_map(torch.clone, once))
    images, again, now = (dict(dotted_items(tree)) for tree in (once, twice, given))
    for name, leaf in dotted_items(kept):
        if not torch.equal(now[name], leaf):
            return f"it changes {name} in place: return new tensors"
        if (got := images[name]).shape != leaf.shape or got.dtype != leaf.dtype:
            return f"expected an image of {name} of {leaf.dtype} {[*leaf.shape]}, got {got.dtype} {[*got.shape]}"
        if not torch.allclose(again[name].double(), leaf.double(), rtol=1e-4, atol=1e-4):
            return f"the image of the image of {name} is not {name}"
    return ""


def find_unlikely(mirror: Mirror, rows: Batch) -> str:
    """Return why images of actions are not as likely under the image of their `logit`; empty if they are."""
    obs, logit, images = rows["obs"], rows["logit"], apply(mirror, rows)
    if isinstance(logit, Tensor):
        choices = torch.arange(logit.shape[-1], device=logit.device)
        labels = mirror(None, choices)[1]
        if not torch.equal(labels[labels], choices):
            return f"expected pairs of actions, but 0 to {len(choices) - 1} become {labels.tolist()}"
        if isinstance(obs, dict) and MASK in obs and not torch.equal(images["obs"][MASK], obs[MASK][:, labels]):
            return f"the image of obs.{MASK} does not allow the images of the allowed actions"
    own, image = log_prob(logit, rows["action"]), log_prob(mirror_logit(mirror, logit), images["action"])
    close = torch.allclose(own, image, rtol=1e-2, atol=1e-2)
    return "" if close else "an action's image is more or less likely than the action: only swap and negate dimensions"
