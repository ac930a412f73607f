"""One network's optimizer, and several in one policy, on one process. Several processes: tests/distributed."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from ding_lite.policy import DQNPolicy
from ding_lite.torch_utils.gradient import EagerGradient
from ding_lite.torch_utils.networks import synchronize_batchnorm
from ding_lite.torch_utils.optimizer import Trained
from ding_lite.torch_utils.optimizer_step import OptimizerStep
from ding_lite.utils.schedule import Scheduled
from tests.policy.helpers import OBS, make_batch, make_cfg, make_policy, same

CFG = make_cfg()


class ActorCritic(nn.Module):
    """An actor that says a number, and a critic of it."""

    def __init__(self) -> None:
        super().__init__()
        self.actor, self.critic = nn.Linear(OBS, 1), nn.Linear(OBS + 1, 1)

    def value(self, obs: Tensor, action: Tensor) -> Tensor:
        return self.critic(torch.cat([obs, action], dim=-1))


class TwoNetworks(DQNPolicy):
    """A critic that learns rewards, and an actor that climbs it, by an optimizer each."""

    _model: Any

    def _init_learn(self) -> None:
        self._critic = self._add_optimizer("critic", self._model.critic)
        self._actor = self._add_optimizer("actor", self._model.actor, learning_rate=0.5)

    def _critic_loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        error = self._model.value(batch["obs"], batch["action"][:, None].float())[:, 0] - batch["reward"]
        return error.square().mean(), {"error": error.detach()}

    def _actor_loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return -self._model.value(batch["obs"], self._model.actor(batch["obs"])).mean(), {}

    def _forward_learn(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        output = self._critic.step(self._critic_loss, batch)
        return output | self._actor.step(self._actor_loss, batch)

    def _state_dict_learn(self) -> dict[str, Any]:
        return super(DQNPolicy, self)._state_dict_learn()

    def _load_state_dict_learn(self, state: dict[str, Any]) -> None:
        super(DQNPolicy, self)._load_state_dict_learn(state)


def create(*overrides: str) -> TwoNetworks:
    torch.manual_seed(0)
    return TwoNetworks(make_cfg(*overrides), ActorCritic())


def test_a_step_returns_the_figures_the_loss_and_the_norm_of_its_gradient() -> None:
    network, batch = nn.Linear(2, 1, bias=False), {"x": torch.tensor([[3.0, 4.0]])}

    def loss(batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return network(batch["x"]).sum(), {"priority": torch.tensor([2.0])}

    optimizer = OptimizerStep(network, CFG, learning_rate=0.25)
    before = network.weight.detach().clone()
    output = optimizer.step(loss, batch)
    assert {key: float(value) for key, value in output.items()} == {
        "priority": 2.0,
        "total_loss": pytest.approx(float((before * batch["x"]).sum())),
        "grad_norm": 5.0,  # the gradient is x, (3, 4)
    }
    assert not output["total_loss"].requires_grad
    # Adam's first step is the learning rate, against the gradient's sign
    assert (network.weight - before).flatten().tolist() == pytest.approx([-0.25, -0.25])


def test_each_network_is_stepped_by_its_own_loss_at_its_own_rate() -> None:
    policy, other = create(), create()
    before = [p.detach().clone() for p in policy.model.parameters()]
    output = policy._critic.step(policy._critic_loss, make_batch(8))
    actor, critic = (list(module.parameters()) for module in (policy._model.actor, policy._model.critic))
    assert output.keys() == {"error", "critic_loss", "critic_grad_norm"}
    assert same(actor, before[:2])
    assert not same(critic, before[2:])
    before = [p.detach().clone() for p in policy.model.parameters()]
    policy._actor.step(
        policy._actor_loss, make_batch(8)
    )  # its loss leaves a gradient in the critic, which the critic's next step ignores
    assert float((actor[0].detach() - before[0]).abs().max()) == pytest.approx(0.5)
    assert same(critic, before[2:])
    other._critic.step(other._critic_loss, make_batch(8))
    other._model.actor.load_state_dict(policy._model.actor.state_dict())
    for one in (policy, other):
        one._critic.step(one._critic_loss, make_batch(8, 1))
    assert same(critic, list(other._model.critic.parameters()))


def test_one_optimizer_alone_is_saved_under_the_keys_that_it_always_had() -> None:
    policy = make_policy()
    policy.learn(make_batch(8))
    state = policy.state_dict()
    keys = {"model", "optimizer", "optimizer_steps", "skipped_updates", "target_model", "iterations", "schedules"}
    assert state.keys() == keys
    assert state["optimizer"].keys() == {"state", "param_groups"}


def test_updates_that_any_of_several_optimizers_skips_are_counted_together() -> None:
    policy, bad = create("learn.on_nonfinite=skip"), make_batch(8)
    bad["obs"][0] = math.nan  # both losses see it
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        output = policy.learn(bad)
    assert len(caught) == 2  # the first of each
    assert output["skipped_updates"] == 2
    bad = make_batch(8)
    bad["reward"][0] = math.nan  # the critic alone
    assert policy.learn(bad)["skipped_updates"] == 3
    assert "skipped_updates" in policy.monitor_vars()
    other = create()
    other.load_state_dict(copy.deepcopy(policy.state_dict()))
    assert other.learn(make_batch(8))["skipped_updates"] == 3


class TwoHeads(nn.Module):
    """Two heads on one encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder, self.actor, self.critic = nn.Linear(OBS, 4), nn.Linear(4, 1), nn.Linear(4, 1)

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        x = torch.tanh(self.encoder(batch["obs"]))
        actor_loss = (self.actor(x)[:, 0] - batch["reward"]).square().mean()
        critic_loss = (self.critic(x)[:, 0] + batch["reward"]).square().mean()
        return actor_loss + critic_loss, {"actor_loss": actor_loss.detach(), "critic_loss": critic_loss.detach()}


def two_heads_step(network: TwoHeads, cfg: Any = CFG) -> OptimizerStep:
    """Return the step of three parts; the actor's rate is 0.1, and half as large after each step."""
    halving = Scheduled(0.1, lambda: 0.1 * 0.5 ** getattr(step, "steps", 0))
    step, parts = (
        None,
        {
            "encoder": Trained(network.encoder, learning_rate=0.01, optimizer="adamw", options={"weight_decay": 0.1}),
            "actor": Trained(
                network.actor, learning_rate=halving, optimizer=torch.optim.SGD, options={"momentum": 0.9}
            ),
            "critic": Trained(network.critic, optimizer="rmsprop", options={"eps": 1e-3}),
        },
    )
    step = OptimizerStep(parts, cfg)
    return step


def test_parts_of_a_network_are_stepped_as_torchs_own_optimizers_would() -> None:
    clip = ("learn.grad_clip_type=clip_norm", "learn.grad_clip_value=0.3")
    cfg = make_cfg(*clip, "learn.learning_rate=0.02", "learn.adam_eps=0.01")
    network, plain = TwoHeads(), TwoHeads()
    plain.load_state_dict(network.state_dict())
    step = two_heads_step(network, cfg)
    optimizers: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(plain.encoder.parameters(), lr=0.01, weight_decay=0.1, eps=0.01),
        torch.optim.SGD(plain.actor.parameters(), lr=0.1, momentum=0.9),
        torch.optim.RMSprop(plain.critic.parameters(), lr=0.02, eps=1e-3),
    ]
    for number in range(4):
        batch = make_batch(8, number)
        output = step.step(network.loss, batch)
        plain.zero_grad()
        plain.loss(batch)[0].backward()
        norms = [nn.utils.clip_grad_norm_(part.parameters(), 0.3) for part in plain.children()]
        optimizers[1].param_groups[0]["lr"] = 0.1 * 0.5**number
        for optimizer in optimizers:
            optimizer.step()
        assert float(output["grad_norm"]) == pytest.approx(math.hypot(*norms), rel=1e-5)
        assert {"actor_loss", "critic_loss", "total_loss"} <= output.keys()
    for mine, other in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    rates = {name: float(rate) for name, rate in step.learning_rates().items()}
    assert rates == {"encoder_learning_rate": 0.01, "actor_learning_rate": 0.0125, "critic_learning_rate": 0.02}


def test_parts_must_not_have_parameters_in_common() -> None:
    network = TwoHeads()
    with pytest.raises(ValueError, match="two modules share a parameter"):
        OptimizerStep({"all": Trained(network), "actor": Trained(network.actor)}, CFG)


def test_an_unknown_optimizer_is_named() -> None:
    network = TwoHeads()
    with pytest.raises(ValueError, match="expected adam, adamw, rmsprop, sgd or a class, got 'adm'"):
        OptimizerStep(network, CFG, optimizer="adm")


@pytest.mark.parametrize("kind", ["adam", "adamw", "rmsprop", "sgd"])
def test_a_step_that_is_not_finite_leaves_every_kind_of_optimizer_alone(kind: str) -> None:
    network, cfg = TwoHeads(), make_cfg("learn.on_nonfinite=skip")
    step = OptimizerStep(network, cfg, optimizer=kind)
    step.step(network.loss, make_batch(8))
    before, bad = [p.detach().clone() for p in network.parameters()], make_batch(8)
    bad["reward"][0] = math.inf
    with pytest.warns(RuntimeWarning, match="An update was skipped"):
        step.step(network.loss, bad)
    assert same(before, list(network.parameters()))
    step.step(network.loss, make_batch(8))
    assert not same(before, list(network.parameters()))


# The config of each kind of optimizer, and torch's own that it must equal.
KINDS: dict[str, tuple[list[str], Any]] = {
    "adam": (
        ["betas=[0.8,0.95]", "adam_eps=0.001", "weight_decay=0.1"],
        lambda p: torch.optim.Adam(p, lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    ),
    "adamw": (
        ["betas=[0,0.99]", "weight_decay=0.2"],
        lambda p: torch.optim.AdamW(p, lr=0.02, betas=(0.0, 0.99), weight_decay=0.2),
    ),
    "rmsprop": (
        ["adam_eps=0.01", "momentum=0.9", "weight_decay=0.1"],
        lambda p: torch.optim.RMSprop(p, lr=0.02, eps=0.01, momentum=0.9, weight_decay=0.1),
    ),
    "sgd": (
        ["momentum=0.9", "weight_decay=0.1"],
        lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9, weight_decay=0.1),
    ),
    "plain_sgd": ([], lambda p: torch.optim.SGD(p, lr=0.02)),
}


def kind_cfg(kind: str) -> Any:
    keys = [f"optimizer={kind.removeprefix('plain_')}", "learning_rate=0.02", *KINDS[kind][0]]
    return make_cfg(*(f"learn.{key}" for key in keys))


@pytest.mark.parametrize("kind", KINDS)
def test_every_optimizer_of_the_config_steps_as_torchs_own(kind: str) -> None:
    network = TwoHeads().double()
    plain = copy.deepcopy(network)
    step = OptimizerStep(network, kind_cfg(kind))
    optimizer = KINDS[kind][1](plain.parameters())
    for number in range(5):
        batch = make_batch(8, number, dtype=torch.float64)
        step.step(network.loss, batch)
        plain.zero_grad()
        plain.loss(batch)[0].backward()
        optimizer.step()
    for mine, other in zip(network.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_every_optimizer_goes_on_from_its_state_to_the_bit(kind: str) -> None:
    cfg, networks = kind_cfg(kind), [TwoHeads(), TwoHeads()]
    steps = [OptimizerStep(network, cfg) for network in networks]
    for number in range(3):
        steps[0].step(networks[0].loss, make_batch(8, number))
    networks[1].load_state_dict(networks[0].state_dict())
    steps[1].load_state_dict(copy.deepcopy(steps[0].state_dict()))
    for number in range(3, 6):
        for step, network in zip(steps, networks, strict=True):
            step.step(network.loss, make_batch(8, number))
    assert same(list(networks[0].parameters()), list(networks[1].parameters()))


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ("rmsprop", "the optimizer has the moments of alpha, momentum, and the state those of betas: "),
        ("plain_sgd", "the optimizer has the moments of SGD, and the state those of betas: "),
    ],
)
def test_the_state_of_another_kind_of_optimizer_is_refused(other: str, message: str) -> None:
    network = TwoHeads()
    saved = OptimizerStep(network, kind_cfg("adam"))
    saved.step(network.loss, make_batch(8))
    with pytest.raises(ValueError, match=message + r"set policy.learn.optimizer .*resume_training=False"):
        OptimizerStep(network, kind_cfg(other)).load_state_dict(saved.state_dict())


def test_every_optimizer_is_that_of_the_config_unless_the_policy_names_one() -> None:
    policy = create("learn.optimizer=rmsprop", "learn.momentum=0.5")
    step = OptimizerStep(nn.Linear(1, 1), policy._cfg, optimizer="adamw")
    kinds = [type(one.optimizers[""]).__name__ for one in (policy._critic, policy._actor, step)]
    assert kinds == ["RMSprop", "RMSprop", "AdamW"]
    assert policy._actor.optimizers[""].param_groups[0]["momentum"] == 0.5


def test_one_process_has_nothing_for_torch_to_wrap_and_says_nothing(capfd: Any) -> None:
    def train(*overrides: str) -> DQNPolicy:
        torch.manual_seed(0)
        policy = make_policy("multi_gpu=True", *overrides)
        policy.learn(make_batch(8))
        return policy

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        wrapped = train("data_parallel=ddp", "ddp.find_unused_parameters=True")
    assert type(wrapped._optimizer.gradient) is EagerGradient
    assert same(list(wrapped.model.parameters()), list(train().model.parameters()))
    assert capfd.readouterr() == ("", "")


def test_synchronised_batch_normalisation_learns_by_the_batch_and_acts_by_statistics() -> None:
    plain = nn.Sequential(nn.Linear(OBS, 4), nn.BatchNorm1d(4))
    reference = copy.deepcopy(plain)
    synchronised: Any = copy.deepcopy(synchronize_batchnorm(plain))  # as a target is
    assert isinstance(synchronised[1], nn.SyncBatchNorm)
    x = torch.randn(8, OBS)
    assert torch.equal(synchronised(x), reference(x))
    assert synchronised[1].num_batches_tracked == 1
    with torch.inference_mode():  # in training mode all the same
        assert torch.equal(synchronised(x), reference.eval()(x))
    assert torch.equal(synchronised(x), reference.train()(x))
    assert synchronised[1].num_batches_tracked == 2


def test_moments_that_are_restored_stay_where_they_are() -> None:
    """A CUDA graph of an update would go on with the old ones otherwise."""
    policy, batch = make_policy(), make_batch(8)
    policy.learn(batch)
    saved = copy.deepcopy(policy._optimizer.state_dict())
    (moments,) = policy.optimizers[0].state.values()
    places = {name: value.data_ptr() for name, value in moments.items()}
    policy.learn(batch)
    policy._optimizer.load_state_dict(saved)
    (restored,) = policy.optimizers[0].state.values()
    assert {name: value.data_ptr() for name, value in restored.items()} == places
    assert all(torch.equal(value, saved["optimizer"]["state"][0][name]) for name, value in restored.items())
