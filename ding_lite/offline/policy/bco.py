"""Behavioural cloning from observation, BCO (Torabi et al. 2018, arXiv:1805.01954).

An expert's data set has no actions. An inverse dynamics model m learns from the policy's own steps which action leads
from one observation to the next. It labels the expert's steps E, and the policy clones them:

    L_idm = -mean log m(a | s, s') over own steps
    L = -mean log pi(a' | s) over E,  a' = argmax m(. | s, s')

The same for continuous actions, with |a - m(s, s')| and |a' - pi(s)|, or their squares. Both learn in every iteration,
and the policy goes on playing, so that m soon knows what happens where the expert is. The data are in the buffer
`observations`, see `offline/observations.py`:

    policy.other.replay_buffer = dict(type="observations", data_path="expert.hdf5")

Without that buffer, E are own steps.

Logged figures, in addition to the losses and those of the networks: `accuracy` and `action_error` of the policy, as in
`bc.py`, compared with the labels; `idm_accuracy` and `idm_action_error` of m, compared with own actions.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from ding_lite.offline.policy.bc import BCPolicy
from ding_lite.policy.common_keys import LEARNING_RATE_KEYS, NOISE_SIGMA, REPLAY_KEYS
from ding_lite.rl_utils.distribution import mode, sample
from ding_lite.torch_utils.data import Batch, Figures, Output
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY

PLAYED_KEYS = {key: part for key, part in REPLAY_KEYS.items() if key not in ("nstep", "priority", "priority_IS_weight")}


@POLICY_REGISTRY.register("bco")
class BCOPolicy(BCPolicy):
    """BCO. It explores with its own probabilities of discrete actions, and with noise on continuous ones."""

    key_groups = (PLAYED_KEYS, LEARNING_RATE_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="bco",
        random_collect_size=1000,
        learn=dict(
            idm_learning_rate=Key(
                1e-3, "learning rate of the inverse dynamics model, whose optimizer is Adam", low=0, high=10**6
            ),
        ),
        collect=dict(noise_sigma=NOISE_SIGMA),
    )
    model_type = "bco"
    learns_from = "replay"
    required_columns = ("obs", "action", "next_obs")
    _model: Any
    model_attributes = ("policy", "idm")
    logged_figures = (*BCPolicy.logged_figures, "idm_accuracy", "idm_action_error")

    def _init_learn(self) -> None:
        self._add_optimizer("policy", self._model.policy)
        self._add_optimizer("idm", self._model.idm, self._cfg.learn.idm_learning_rate, "adam")

    def _prepare(self, batch: Batch) -> Batch:
        batch = super()._prepare(batch)
        expert = batch.get("expert")
        if expert is None:
            return {**batch, "expert": {key: batch[key] for key in ("obs", "next_obs")}}
        seen = {key: self.normalizer.normalize_obs(expert[key]) for key in ("obs", "next_obs")}
        return {**batch, "expert": seen}

    def _idm_loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L_idm, and detached figures."""
        output = self._run(self._model.idm, batch["obs"], next_obs=self._to_device(batch["next_obs"]))
        loss, figures = self._imitation(output, batch["obs"], batch["action"])
        return loss, {f"idm_{key}": value for key, value in figures.items()}

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return L, and detached figures."""
        expert = batch["expert"]
        with torch.no_grad():
            guess = self._run_frozen(self._model.idm, expert["obs"], next_obs=self._to_device(expert["next_obs"]))
        label: Any = mode(guess["logit"]) if "logit" in guess else guess["action"]
        return self._imitation(self._run(self._model.policy, expert["obs"]), expert["obs"], label)

    def _forward_learn(self, batch: Batch) -> Figures:
        output = self._optimizers["idm"].step(self._idm_loss, batch)
        return output | self._optimizers["policy"].step(self._loss, batch)

    @torch.inference_mode()
    def _forward_collect(self, obs: Any, **kwargs: Any) -> Output:
        output = self._run(self._model, obs)
        if "logit" in output:
            return output | {"action": sample(output["logit"])}
        mu_ND = output["action"]
        noise_ND = float(self._cfg.collect.noise_sigma) * torch.randn_like(mu_ND)
        return {"action": (mu_ND + noise_ND).clamp(-1.0, 1.0)}
