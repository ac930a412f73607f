"""Intrinsic rewards, which pay for what is new: random network distillation and the intrinsic curiosity module.

Every collect, the networks learn from random batches of the rollout block, and each step gets

    r' = r + w b / std(R),  or  r' = b / std(R),  R_t = b_t + g R_{t-1}

where b is its bonus, w `intrinsic_reward_weight`, g `bonus_discount`, and R the discounted sum of bonuses, which is 0
before an episode. std(R) is the standard deviation of all R so far, of all ranks (Burda et al. 2018, section 2.4).
Values, which are such sums, then are of the order of 1, whatever the bonuses. A bonus is at most 10 std(R).

Shapes: T steps, N environments, B samples, F features, A actions.
"""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 (its usual name)

from ding_lite.model.encoders import create_encoder
from ding_lite.reward_model.base import RewardModel, shape_of
from ding_lite.torch_utils.data import Batch, Block, Figures
from ding_lite.torch_utils.minibatch import next_obs
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.torch_utils.running_stat import RunningMeanStd
from ding_lite.utils.key import Groups, Key
from ding_lite.utils.ranks.collectives import get_rank, get_world_size
from ding_lite.utils.registry import REWARD_MODEL_REGISTRY, ConfigError
from ding_lite.utils.tree import tree_leaves, tree_map

SCALE_KEYS: dict[str, Any] = dict(
    bonus_discount=Key(0.99, "g: discount of the sums of bonuses whose deviation is their unit", low=0, high=1)
)


class IntrinsicRewardModel(RewardModel):
    """Base of reward models that add a bonus. A subclass says what it learns from, its loss and the bonus.

    One whose bonuses have another unit leaves out `SCALE_KEYS`, and overrides `_stats`, `_measure` and `_intrinsic`.
    """

    key_groups: ClassVar[Groups] = (SCALE_KEYS,)
    config = dict(
        intrinsic_reward_type=Key(
            "add",
            "'add': the bonus is added to the environment's reward; 'assign': it takes its place",
            choices=("add", "assign"),
        ),
        intrinsic_reward_weight=Key(0.5, "what bonuses add to the reward: the deviation of its discounted sums", low=0),
        extrinsic_reward_norm=Key(True, "divide the environment's reward by extrinsic_reward_norm_max"),
        extrinsic_reward_norm_max=Key(1.0, "the environment's largest reward", above=0, needs="extrinsic_reward_norm"),
        hidden_size_list=Key([64, 64, 128], "layers of each encoder; the last one is F", low=1),
        batch_size=Key(64, "steps per rank and update", low=1),
        update_per_collect=Key(100, "updates after each collect", low=0),
    )

    def _init_networks(self) -> None:
        self._scale = Normalizer(None, self._cfg.get("bonus_discount")).to(self._device)  # of bonuses

    def _create_encoder(self) -> nn.Module:
        size = self._cfg.hidden_size_list[-1]
        encoder = create_encoder(shape_of(self._observation_space), self._cfg.hidden_size_list)
        return nn.Sequential(encoder, nn.Linear(size, size)).to(self._device)

    def _data(self, block: Block) -> dict[str, Any]:
        """Return what losses and bonuses need of a rollout block, `[T N, ...]`."""
        raise NotImplementedError

    def _bonus(self, data: dict[str, Any]) -> Tensor:
        """Return the bonus of each sample, `[B]`."""
        raise NotImplementedError

    def _learn(self, batch: Batch) -> dict[str, Tensor]:
        """Take an optimizer step on a batch `[B, ...]`, and return its figures."""
        raise NotImplementedError

    @property
    def _stats(self) -> RunningMeanStd:
        """Statistics of all bonuses so far, which `_measure` updates."""
        assert self._scale.returns is not None
        return self._scale.returns

    @torch.no_grad()
    def _measure(self, block: Block, bonus_TN: Tensor) -> Figures:
        """Update the statistics with the bonuses of a block, before the networks learn from it; return figures."""
        self._scale.update(
            {"reward": bonus_TN} | {key: block[key] for key in ("episode_step", "actor") if key in block}
        )
        return {"bonus_return_std": self._stats.std}

    def _intrinsic(self, block: Block) -> Tensor:
        """Return the bonuses of a block in the unit of rewards, `[T, N]`."""
        bonus = self._scale.normalize({"reward": self._bonus(self._data(block))})["reward"]
        return bonus.view(block["reward"].shape)

    def train(self, block: Block) -> dict[str, Tensor]:
        data = self._data(block)
        # The count makes the batches of a resumed run those of one that was never stopped.
        seed = int(self._stats.count) * get_world_size() + get_rank()
        generator, number = torch.Generator().manual_seed(seed), len(next(iter(tree_leaves(data))))
        with torch.no_grad():
            bonus_TN = self._bonus(data).view(block["reward"].shape)
        figures = self._measure(block, bonus_TN)
        for _ in range(self._cfg.update_per_collect):
            index_B = torch.randint(number, (self._cfg.batch_size,), generator=generator).to(self._device)
            figures |= self._learn(tree_map(lambda leaf: leaf[index_B], data))  # noqa: B023 (called at once)
        return figures

    def relabel(self, block: Block) -> dict[str, Any]:
        cfg, reward_TN = self._cfg, block["reward"]
        bonus_TN = self._intrinsic(block).to(reward_TN)
        if cfg.intrinsic_reward_type == "assign":
            return {**block, "reward": bonus_TN}
        scale = cfg.extrinsic_reward_norm_max if cfg.extrinsic_reward_norm else 1.0
        return {**block, "reward": reward_TN / scale + cfg.intrinsic_reward_weight * bonus_TN}

    def local_state_dict(self) -> dict[str, Any]:
        return super().local_state_dict() | {"scale": self._scale.local_state_dict()}

    def load_local_state_dict(self, state: dict[str, Any]) -> None:
        super().load_local_state_dict(state)
        self._scale.load_local_state_dict(state.get("scale") or {})


@REWARD_MODEL_REGISTRY.register("rnd")
class RndRewardModel(IntrinsicRewardModel):
    """Random network distillation (Burda et al. 2018, arXiv:1810.12894).

    A predictor learns what a fixed random network says of the observations s' to which steps have led. Where it errs,
    few have led: b = mean_F (predictor(s') - target(s'))^2.

    Deviations from the paper: the bonus joins the reward, so there is one value function with one discount, and the
    return of bonuses ends with the episode. Images are neither normalised nor cut to their newest frame; other
    observations are clipped at -1 and 1, by default, instead of -5 and 5. The predictor has no more layers than the
    target, and learns from random batches of a collect, not from a share of the batches of PPO.
    """

    config = dict(
        type="rnd",
        obs_norm=Key(True, "normalise observations of floats by their running mean and standard deviation"),
        obs_norm_clamp_min=Key(-1.0, "smallest normalised observation", needs="obs_norm"),
        obs_norm_clamp_max=Key(1.0, "largest normalised observation", needs="obs_norm"),
    )

    def _init_networks(self) -> None:
        super()._init_networks()
        space = self._observation_space if self._cfg.obs_norm else None
        self._normalizer = Normalizer(space, None).to(self._device)
        self._target = self._create_encoder().requires_grad_(False)
        self._predictor = self._create_encoder()
        self._optimizer = self._add_optimizer("predictor", self._predictor)

    def train(self, block: Block) -> dict[str, Tensor]:
        self._normalizer.update({"obs": self._to_device(next_obs(block))})
        return super().train(block)

    def _data(self, block: Block) -> dict[str, Any]:
        cfg = self._cfg

        def clamp(leaf: Tensor) -> Tensor:
            flat = leaf.flatten(0, 1)
            if not cfg.obs_norm or not leaf.is_floating_point():
                return flat
            return flat.clamp(cfg.obs_norm_clamp_min, cfg.obs_norm_clamp_max)

        return {"obs": tree_map(clamp, self._normalizer.normalize_obs(self._to_device(next_obs(block))))}

    def _bonus(self, data: dict[str, Any]) -> Tensor:
        error_BF = self._predictor(data["obs"]) - self._target(data["obs"])
        return error_BF.square().mean(-1)

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        return self._bonus(batch).mean(), {}

    def _learn(self, batch: Batch) -> dict[str, Tensor]:
        return {"loss": self._optimizer.step(self._loss, batch)["predictor_loss"]}


@REWARD_MODEL_REGISTRY.register("icm")
class IcmRewardModel(IntrinsicRewardModel):
    """The intrinsic curiosity module (Pathak et al. 2017, arXiv:1705.05363).

    Features phi of observations, from which an inverse model can say which action lies between two of them, leave out
    what no action influences. A forward model predicts the features of the next observation:

        b = mean_F (forward(phi(s), a) - phi(s'))^2,  L = L_forward + reverse_scale L_inverse

    L_inverse is the cross entropy of a discrete action, or the mean squared error of a continuous one. The models have
    one hidden layer each. The gradient of L_forward does not reach phi(s').
    """

    config = dict(
        type="icm",
        intrinsic_reward_weight=0.15,
        reverse_scale=Key(1.0, "weight of the inverse model's loss", low=0),
    )

    def _init_networks(self) -> None:
        super()._init_networks()
        size = self._cfg.hidden_size_list[-1]
        self._num_actions, width = count_actions(self._action_space, "icm")
        self._networks = nn.ModuleDict(
            {
                "encoder": self._create_encoder(),
                "inverse_model": nn.Sequential(nn.Linear(2 * size, 512), nn.ReLU(), nn.Linear(512, width)),
                "forward_model": nn.Sequential(nn.Linear(size + width, 512), nn.ReLU(), nn.Linear(512, size)),
            }
        ).to(self._device)
        self._optimizer = self._add_optimizer("icm", self._networks)

    def _data(self, block: Block) -> dict[str, Any]:
        data = {"obs": block["obs"], "next_obs": next_obs(block), "action": block["action"]}
        return tree_map(lambda leaf: leaf.flatten(0, 1), self._to_device(data))

    def _errors(self, data: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Return the forward model's error of each sample, `[B]`, and the mean error of the inverse model."""
        action, networks = data["action"], self._networks
        action_BA = F.one_hot(action, self._num_actions).float() if self._num_actions else action.flatten(1).float()
        now_BF, next_BF = networks["encoder"](data["obs"]), networks["encoder"](data["next_obs"])
        guess_BA = networks["inverse_model"](torch.cat([now_BF, next_BF], -1))
        guess_BF = networks["forward_model"](torch.cat([now_BF, action_BA], -1))
        inverse = F.cross_entropy(guess_BA, action) if self._num_actions else F.mse_loss(guess_BA, action_BA)
        return (guess_BF - next_BF.detach()).square().mean(-1), inverse

    def _bonus(self, data: dict[str, Any]) -> Tensor:
        return self._errors(data)[0]

    def _loss(self, batch: Batch) -> tuple[Tensor, Figures]:
        forward_B, inverse = self._errors(batch)
        figures = {"forward_loss": forward_B.mean().detach(), "inverse_loss": inverse.detach()}
        return forward_B.mean() + self._cfg.reverse_scale * inverse, figures

    def _learn(self, batch: Batch) -> dict[str, Tensor]:
        figures = self._optimizer.step(self._loss, batch)
        return {key: figures[key] for key in ("forward_loss", "inverse_loss")}


def count_actions(space: Any, kind: str) -> tuple[int, int]:
    """Return the number of discrete actions, 0 if they are continuous, and the length of what predicts an action.

    `kind` is the type of the reward model, for the error.
    """
    if not isinstance(space, Discrete | Box):
        raise ConfigError(f"reward_model.type '{kind}' needs a Discrete or Box action space, got {space}: use 'rnd'.")
    number = int(space.n) if isinstance(space, Discrete) else 0
    return number, number or int(torch.Size(space.shape or ()).numel())
