"""Builds the modes of a policy: each calls the policy's methods with the networks in training or evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from torch import Tensor

from ding_lite.model.noisy import NoisyLinear, explore
from ding_lite.torch_utils.modes import Batch, CollectMode, EvalMode, LearnMode
from ding_lite.torch_utils.networks import (
    average_buffers,
    checksum_networks,
    drifting_buffers,
    modules_of,
    set_training,
)


class PolicyModes:
    """The three modes of a policy.

    Losses are computed in training mode. The policy acts, and prepares batches, in evaluation mode: there is no dropout
    and statistics do not change, so a network's output depends only on its input. Noisy layers are the exception: they
    draw noise when the policy collects. A network is switched only if it is not in the right mode yet, because
    switching takes time.

    Args:
        policy: the policy, fully built.

    Attributes:
        learn: the functions that a learner calls.
        collect: the functions that a collector calls.
        eval: the functions that an evaluator calls.
    """

    def __init__(self, policy: Any) -> None:
        self._policy, self._modules = policy, modules_of(policy)
        self._buffers = drifting_buffers(self._modules) if policy._cfg.multi_gpu else []
        noisy = any(isinstance(module, NoisyLinear) for module in policy.model.modules())
        self._explore: AbstractContextManager[None] = explore(policy.model) if noisy else nullcontext()
        self.learn = LearnMode(
            forward=self._step,
            loss=self._compute_loss,
            get_batches=self._get_batches,
            finish=policy._optimizers.finish,
            checksum=self._checksum,
            monitor_vars=policy._monitor_vars_learn,
            state_dict=policy._state_dict_learn,
            load_state_dict=policy._load_state_dict_learn,
        )
        self.collect = CollectMode(
            forward=self._act,
            process_transition=policy._process_transition,
            get_train_sample=policy._get_train_sample,
            get_collect_kwargs=policy._get_collect_kwargs,
            reset=policy._reset_collect,
            state_dict=policy._state_dict_collect,
            load_state_dict=policy._load_state_dict_collect,
        )
        self.eval = EvalMode(
            forward=self._act_best, reset=policy._reset_eval, load_state_dict=policy._load_state_dict_eval
        )

    def _set_training(self, training: bool) -> None:
        for module in self._modules:
            if module.training != training:
                set_training(module, training)

    # Learning.

    def _step(self, batch: Batch) -> dict[str, Tensor]:
        """Take one optimizer step. The learning rates and the number of skipped updates are added to its figures."""
        self._set_training(True)
        output = self._policy._forward_learn(self._with_noise(batch))
        if self._buffers:
            average_buffers(self._buffers)
        return output | self._policy._optimizers.figures()

    def _compute_loss(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        self._set_training(True)
        return self._policy._loss(self._with_noise(batch))

    def _with_noise(self, batch: Batch) -> Batch:
        """Return the batch with the random numbers that its losses need. Noise already in the batch is kept."""
        noise = batch.get("noise") or self._policy._draw_noise(batch)
        return {**batch, "noise": noise} if noise else batch

    def _get_batches(self, samples: Batch) -> Iterator[Batch]:
        self._set_training(False)
        for batch in self._policy._get_batches(samples):
            yield batch
            self._set_training(False)

    def _checksum(self) -> tuple[int, int]:
        return checksum_networks(modules_of(self._policy))

    # Acting.

    def _act(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        self._set_training(False)
        with self._explore:
            return self._policy._forward_collect(obs, **kwargs)

    def _act_best(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        self._set_training(False)
        return self._policy._forward_eval(obs, **kwargs)
