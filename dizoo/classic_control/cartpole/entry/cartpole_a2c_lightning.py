"""A2C on CartPole-v0 with Lightning's training loop, optimizer step and DDP; solved at a mean return of 195.

Start it with `python THIS_FILE`; it trains on two processes. It needs an extra: `pip install -e '.[lightning]'`.
"""

from __future__ import annotations

from typing import Any

import lightning
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ding_lite.entry import RolloutDataset
from dizoo.classic_control.cartpole.config.cartpole_a2c_config import create_config, main_config

GOAL = main_config.env.stop_value


class A2CModule(lightning.LightningModule):
    """Lets Lightning train a policy of ding_lite: every rank collects its own samples, DDP averages the gradients.

    Args:
        seed: environments and exploration derive their seeds from it.
        num_workers: worker processes per rank that collect; 0: the rank itself collects.
    """

    def __init__(self, seed: int = 0, num_workers: int = 0) -> None:
        super().__init__()
        longer = ["policy.discount_factor=0.98"]  # far enough to see the pole fall
        self.dataset = RolloutDataset((main_config, create_config), seed, unit="batch", overrides=longer)
        self.policy, self.num_workers = self.dataset.policy, num_workers
        self.model = self.policy.model  # a submodule, so that Lightning sees its parameters
        self.played = self.dataset.figures()

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(self.dataset, batch_size=None, num_workers=self.num_workers)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), lr=self.dataset.cfg.policy.learn.learning_rate)

    def training_step(self, batch: dict[str, Any], _: int) -> Tensor:
        loss, _figures = self.policy.loss(batch)
        return loss

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.dataset.publish()  # the next collect uses the new parameters
        if (batch_idx + 1) % 250 == 0:
            self.stop_if_solved()

    def stop_if_solved(self) -> None:
        """Log the mean return of all ranks' episodes since the last call, and stop training if it reaches the goal."""
        before, self.played = self.played, self.dataset.figures()
        sums = torch.tensor([self.played[key] - before[key] for key in ("return", "episode")])
        returns, episodes = self.trainer.strategy.reduce(sums, reduce_op="sum").tolist()
        self.log("return", returns / episodes, prog_bar=True)
        self.trainer.should_stop = returns / episodes >= GOAL


def main() -> None:
    """Train on two processes until the goal is reached."""
    torch.set_num_threads(1)
    module = A2CModule()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        max_steps=20_000,
        gradient_clip_val=module.dataset.cfg.policy.learn.grad_clip_value,
        enable_checkpointing=False,
        logger=False,
    )
    trainer.fit(module)


if __name__ == "__main__":
    main()
