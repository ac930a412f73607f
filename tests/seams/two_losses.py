"""Q-learning with an encoder that also learns to reconstruct what it sees.

Two losses meet in one encoder: there is one backward pass of their weighted sum, and each part of the network has an
optimizer of its own kind, rate and schedule.

    L = L_DQN + reconstruction_weight mean (decoder(encoder(s)) - s)^2

Shapes: B samples, A actions, F features.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from ding_lite.policy import DQNPolicy
from ding_lite.torch_utils import Trained
from ding_lite.utils import MODEL_REGISTRY, POLICY_REGISTRY


@MODEL_REGISTRY.register("reconstructing_q")
class ReconstructingQ(nn.Module):
    """An encoder, and two heads on it: Q-values and a reconstruction.

    Args:
        obs_shape: length of the observation.
        action_shape: A.
        hidden_size: F.
    """

    def __init__(self, obs_shape: int, action_shape: int, hidden_size: int = 32) -> None:
        super().__init__()
        self.decoder = nn.Linear(hidden_size, obs_shape)
        self.head = nn.Linear(hidden_size, action_shape)
        self.encoder = nn.Sequential(nn.Linear(obs_shape, hidden_size), nn.Tanh())

    def forward(self, obs: Tensor) -> dict[str, Tensor]:
        """Return `{'logit'}` `[B, A]`, the Q-values."""
        return {"logit": self.head(self.encoder(obs))}

    def reconstruct(self, obs: Tensor) -> Tensor:
        """Return what the features still say of the observation, of its shape."""
        return self.decoder(self.encoder(obs))


@POLICY_REGISTRY.register("reconstructing_dqn")
class ReconstructingDQNPolicy(DQNPolicy):
    """DQN whose encoder serves a second loss; see the module."""

    config = dict(
        type="reconstructing_dqn",  # (str) name in the policy registry
        learn=dict(
            reconstruction_weight=0.5,  # (float) weight of the second loss
            learning_rate=0.001,  # (float) of the encoder's Adam
            learning_rate_head=0.002,  # (float) learning rate of the head's RMSprop
            learning_rate_decoder=0.05,  # (float) learning rate of the decoder's SGD, with momentum
        ),
    )
    logged_figures = (*DQNPolicy.logged_figures, "q_loss", "reconstruction_loss")
    _model: ReconstructingQ

    @staticmethod
    def default_model() -> tuple[str, list[str]]:
        return "reconstructing_q", ["tests.seams.two_losses"]

    def _init_learn(self) -> None:
        learn, model = self._cfg.learn, self._model
        parts = {
            "encoder": Trained(model.encoder, learn.learning_rate),
            "head": Trained(model.head, learn.learning_rate_head, "rmsprop", dict(eps=1e-5)),
            "decoder": Trained(model.decoder, learn.learning_rate_decoder, "sgd", dict(momentum=0.9)),
        }
        self._optimizer = self._add_optimizer("model", parts)
        self._target_model = self._add_target("model")

    def _loss(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        q_loss, figures = super()._loss(batch)
        obs = self._to_device(batch["obs"])
        reconstruction_loss = (self._model.reconstruct(obs) - obs).square().mean()
        loss = q_loss + self._cfg.learn.reconstruction_weight * reconstruction_loss
        return loss, figures | {"q_loss": q_loss.detach(), "reconstruction_loss": reconstruction_loss.detach()}


main_config = dict(
    exp_name="two_losses",
    env=dict(env_id="CartPole-v1", collector_env_num=4, evaluator_env_num=4, n_evaluator_episode=4),
    policy=dict(
        multi_gpu=True,
        num_threads=1,
        learn=dict(
            update_per_collect=4,
            batch_size=32,
            target_update_freq=2,
            learning_rate=dict(type="exponential", start=0.001, end=0.0005, over=1000, by="iteration"),
        ),
        collect=dict(n_sample=16),
        other=dict(replay_buffer=dict(replay_buffer_size=2000)),
    ),
)
create_config = dict(policy=dict(type="reconstructing_dqn", import_names=["tests.seams.two_losses"]))
