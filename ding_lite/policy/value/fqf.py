"""DQN with fully parameterised quantile functions, FQF (Yang et al. 2019, arXiv:1911.02140).

For every state, the layer `fraction` of the network divides [0, 1] into K intervals with the boundaries tau_0 = 0 to
tau_K = 1 and the midpoints h_i. The rest of the network is that of IQN, and predicts the quantile Z_tau(s, a) of the
return. An action's value is sum_i (tau_{i+1} - tau_i) Z_{h_i}(s, a). Two losses are minimised, each by its own
optimizer:

* all of the network except `fraction`, by Adam: the quantile loss of `iqn.py` with the probabilities h_i(s_t) and
  h_j(s_{t+n}) instead of random ones;
* `fraction`, by RMSProp: the Wasserstein distance between the quantile function and the K steps that approximate it.
  Its derivative with respect to tau_i is 2 Z_{tau_i} - Z_{h_i} - Z_{h_{i-1}} for the action a_t. The entropy of the
  intervals' lengths, times `learn.ent_coef`, is subtracted.

Exploration, replay, target network and options are those of DQN. The priority of a sample is its quantile loss.

Shapes: B samples in a batch, A actions, K quantiles.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ding_lite.model.distributional import FractionHead
from ding_lite.policy.common_keys import AGENT_KEYS, DOUBLE_KEYS, DQN_KEYS, NOISY_KEYS, SPREAD_KEYS
from ding_lite.policy.value.dqn import DQNPolicy
from ding_lite.rl_utils.common import bootstrapped, weighted_mean
from ding_lite.rl_utils.quantile import fqf_calculate_fraction_loss, quantile_loss
from ding_lite.torch_utils.data import Batch, Figures
from ding_lite.torch_utils.optimizer import Trained
from ding_lite.utils.key import Key
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError


@POLICY_REGISTRY.register("fqf")
class FQFPolicy(DQNPolicy):
    """FQF. Its model takes and returns what `FQF` does, and has one `FractionHead`."""

    key_groups = (DQN_KEYS, SPREAD_KEYS, DOUBLE_KEYS, NOISY_KEYS, AGENT_KEYS)
    config: ClassVar[dict[str, Any]] = dict(
        type="fqf",
        discount_factor=0.97,
        nstep=1,
        learn=dict(
            learning_rate_fraction=Key(2.5e-9, "learning rate of RMSProp, for the intervals", low=0, high=10**6),
            learning_rate_quantile=Key(5e-5, "learning rate of Adam, for everything else", low=0, high=10**6),
            adam_eps=0.01 / 32,
            kappa=Key(1.0, "error up to which the quantile loss is quadratic; 0: nowhere", low=0),
            ent_coef=Key(
                0.0, "weight of the entropy of the intervals' lengths, which keeps them from vanishing", low=0
            ),
        ),
    )
    model_type = "fqf"
    logged_figures = (*DQNPolicy.logged_figures, "quantile_loss", "fraction_loss", "entropy")

    def _init_learn(self) -> None:
        fraction = nn.ModuleList(module for module in self._model.modules() if isinstance(module, FractionHead))
        if len(fraction) != 1:
            raise ConfigError(
                f"Policy 'fqf' trains a layer of the class ding_lite.model.FractionHead by an optimizer of its own: "
                f"expected a model with one, but {type(self._model).__name__} has {len(fraction)}."
            )
        own = {id(parameter) for parameter in fraction.parameters()}
        quantile = nn.ParameterList(each for each in self._model.parameters() if id(each) not in own)
        learn = self._cfg.learn
        parts = {
            "fraction": Trained(fraction, learn.learning_rate_fraction, "rmsprop", {"alpha": 0.95, "eps": 1e-5}),
            "quantile": Trained(quantile, learn.learning_rate_quantile),
        }
        self._optimizer = self._add_optimizer("model", parts)
        self._target_model = self._add_target("model")

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        """Return the sum of both losses, and detached figures; see `DQNPolicy._loss` for the batch.

        The gradient of each loss flows only to the parameters that it trains.
        """
        learn, action_B, weight_B = self._cfg.learn, batch["action"], batch.get("weight")
        noise = batch["noise"].get("online")
        online = self._run(self._model, batch["obs"], layer_noise=noise, boundaries=True)
        row_B = torch.arange(len(action_B), device=action_B.device)
        theta_BK = online["q"][row_B, :, action_B]
        with torch.no_grad():
            target, next_action_B = self._next_outputs(batch)
            target_BK = bootstrapped(batch, target["q"][row_B, :, next_action_B].t()).t()
        loss_B = quantile_loss(theta_BK, target_BK, online["quantiles_hats"], learn.kappa) / (learn.kappa or 1.0)
        quantile_term = weighted_mean(loss_B, weight_B)
        fraction_loss = fqf_calculate_fraction_loss(
            online["q_tau_i"], online["q"], online["quantiles"], action_B, weight_B
        )
        entropy_B = online["entropies"][:, 0]
        bonus = weighted_mean(entropy_B, weight_B)
        return quantile_term + fraction_loss - learn.ent_coef * bonus, {
            "priority": loss_B.detach(),
            "q_value": online["logit"].detach(),
            "quantile_loss": quantile_term.detach(),
            "fraction_loss": fraction_loss.detach(),
            "entropy": entropy_B.detach(),
        }
