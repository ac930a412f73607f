"""What holds for every registered policy, with the options of the parity test, whatever its algorithm."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.policy import Policy
from ding_lite.utils.key import declared_keys
from ding_lite.utils.registry import POLICY_REGISTRY
from ding_lite.utils.tree import tree_leaves, tree_map
from tests.algorithms import row
from tests.distributed import parity
from tests.distributed.test_parity import CASES, PROBLEMS
from tests.policy.helpers import OURS, batches_of, compile_for, parameter_hash, same_tree

DEFAULTS = {name: POLICY_REGISTRY.find(name).default_config() for name in OURS}
WEIGHTED = [name for name in OURS if "priority_IS_weight" in DEFAULTS[name]]
# One step alone is discounted by the config's number; sequences have tests of their own.
BOOTSTRAPPED = [
    name for name in WEIGHTED if not row(name).short and declared_keys(POLICY_REGISTRY[name])["nstep"].choices != (1,)
]
NOISY = [name for name in OURS if "noisy_net" in DEFAULTS[name]]
EPSILON = [name for name in OURS if "eps" in DEFAULTS[name].other]
FOLLOWED = [name for name in OURS if "target_theta" in DEFAULTS[name].learn]
COPIED = [name for name in OURS if "target_update_freq" in DEFAULTS[name].learn]
MAIN_LOSSES = ("total_loss", "critic_loss", "q_loss", "dis_loss")  # those that importance weights enter
# Figures of options, of kinds of actions, and one of a collect.
OPTIONAL = {"kl", "kl_div", "explained_variance", "clipped_share", "accuracy", "action_error"}
OPTIONAL |= {"idm_accuracy", "idm_action_error"}
OPTIONAL |= {"alpha_loss", "alpha_grad_norm", "lagrange", "lagrange_loss", "lagrange_grad_norm"}
Played = tuple[EasyDict, dict[str, Any]]


@functools.cache
def problem(case: str) -> Played:
    """Return the config of one of `PROBLEMS`, and a block that was collected with it."""
    cfg = parity.compile_problem(*PROBLEMS[case])
    cfg.policy.learn.batch_size = 10**6
    return cfg, parity.collect_block(cfg)


def played(name: str, *overrides: str) -> Played:
    """Return the config of a policy, and a block that was collected with its defaults."""
    cfg = compile_for(name, *overrides)
    cfg.policy.learn.batch_size = 10**6
    return cfg, problem(next(case for case, (each, *_) in PROBLEMS.items() if each == name))[1]


def batches(policy: Policy, cfg: EasyDict, block: dict[str, Any], dtype: torch.dtype) -> Iterator[dict[str, Any]]:
    return (cast(batch, dtype) for batch in batches_of(policy, cfg, cast(block, dtype)))


def cast(tree: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    return tree_map(lambda leaf: leaf.to(dtype) if leaf.is_floating_point() else leaf, tree)


def learn(policy: Policy, play: Played, seeds: Iterable[int], dtype: torch.dtype = torch.float64) -> list[Any]:
    """Learn from the block once for each seed, each time after a collect; return the figures of all steps."""
    found = []
    for seed in seeds:
        torch.manual_seed(seed)
        policy.begin_collect(10 * seed)
        found += [policy.learn(batch) for batch in batches(policy, *play, dtype)]
    return found


def targets(policy: Policy) -> dict[str, tuple[Tensor, Tensor]]:
    """Return each tensor of the target networks, and the online network's, by name."""
    state = policy.state_dict()
    networks = {f"{name}.": part for name, part in state.get("targets", {}).items()}
    networks |= {"": state} if "target_model" in state else {}
    return {
        f"{prefix}{name}": (value.clone(), state["model"][f"{prefix}{name}"].clone())
        for prefix, network in networks.items()
        for name, value in network["target_model"].items()
    }


@pytest.mark.parametrize("case", CASES)
def test_learning_goes_on_from_a_state_as_if_it_had_not_stopped(case: str) -> None:
    play = problem(case)
    policy, other = (parity.create_policy(play[0]) for _ in range(2))
    learn(policy, play, range(3))  # P-DQN stops within its cycle
    learn(other, play, [7])
    assert not same_tree(policy.state_dict(), other.state_dict())
    other.load_state_dict(copy.deepcopy(policy.state_dict()))
    assert same_tree(*(learn(one, play, range(3, 5)) for one in (policy, other)))
    assert same_tree(policy.state_dict(), other.state_dict())
    assert policy.checksum() == other.checksum()


@pytest.mark.parametrize("name", OURS)
def test_a_state_without_its_optimizer_starts_a_new_run_whose_targets_are_the_model(name: str) -> None:
    play = played(name)
    old, other, new = (parity.create_policy(play[0]) for _ in range(3))
    learn(old, play, range(2))
    other.load_state_dict({key: value for key, value in copy.deepcopy(old.state_dict()).items() if key != "optimizer"})
    assert same_tree(other.state_dict()["model"], old.state_dict()["model"])
    assert all(torch.equal(*pair) for pair in targets(other).values())
    learned = {"model", "target_model", "targets", "value_stats"}  # the model's values are in the units of the last
    assert same_tree(*({k: v for k, v in one.state_dict().items() if k not in learned} for one in (other, new)))


@pytest.mark.parametrize("case", CASES)
def test_a_step_leaves_its_batch_as_it_was_and_returns_every_figure_that_is_watched(case: str) -> None:
    play = problem(case)
    policy, figures = parity.create_policy(play[0]), set(OPTIONAL)
    policy.begin_collect(0)
    block = copy.deepcopy(play[1])
    for _ in range(3):
        for batch in batches(policy, *play, torch.float64):
            before = copy.deepcopy(batch)
            output = policy.learn(batch)
            assert same_tree(batch, before)
            assert not any(figure.requires_grad for figure in output.values())
            assert all(figure.isfinite().all() for figure in output.values())
            figures |= output.keys()
    assert same_tree(play[1], block)
    assert set(policy.monitor_vars()) <= figures


@pytest.mark.parametrize("case", CASES)
def test_a_loss_is_a_function_of_networks_and_batch_and_changes_neither(case: str) -> None:
    play = problem(case)
    policy = parity.create_policy(play[0])
    if type(policy)._loss is Policy._loss:
        pytest.skip("it has several losses; that they are functions is seen where learning goes on from a state")
    batch = next(batches(policy, *play, torch.float64))
    before, networks, losses = copy.deepcopy(batch), policy.checksum(), []
    for _ in range(2):
        torch.manual_seed(0)
        losses.append(policy.loss(batch)[0])
    assert torch.equal(*losses)
    assert policy.checksum() == networks
    assert same_tree(batch, before)


def first_step(name: str, *overrides: str, dtype: torch.dtype = torch.float32, columns: Any = None) -> Any:
    """Return the policy, with networks in float32, and the figures of its first step; observations have this type."""
    play = played(name, *overrides)
    torch.manual_seed(0)
    policy = POLICY_REGISTRY.find(name)(play[0].policy)
    batch = next(batches(policy, *play, torch.float32))
    torch.manual_seed(1)
    wide = cast({key: value for key, value in batch.items() if key.endswith("obs")}, dtype)
    return policy, policy.learn(batch | wide | (columns or {}))


@pytest.mark.parametrize("name", OURS)
def test_bf16_computes_coarsely_and_keeps_parameters_and_losses_in_float32(name: str) -> None:
    gradients = []
    for precision in ("float32", "bf16"):
        policy, output = first_step(name, f"policy.precision={precision}")
        played = policy.act(parity.observations(name, 3, np.float32))
        losses = {key: value for key, value in output.items() if key.endswith("loss") or key == "priority"}
        floats = [leaf for leaf in tree_leaves(played | losses) if leaf.is_floating_point()]
        floats += [value for value in policy.model.state_dict().values() if value.is_floating_point()]
        assert {leaf.dtype for leaf in floats} == {torch.float32}
        assert not any(leaf.requires_grad for leaf in floats)
        gradients.append(torch.cat([p.grad.flatten() for p in policy.model.parameters() if p.grad is not None]))
    assert not torch.equal(*gradients)
    assert torch.cosine_similarity(gradients[0], gradients[1], dim=0) > 0.95  # bf16 has 8 bits


@pytest.mark.parametrize("name", OURS)
def test_observations_of_float64_are_learned_from_in_the_models_type(name: str) -> None:
    (narrow, output), (wide, same_output) = (first_step(name, dtype=t) for t in (torch.float32, torch.float64))
    assert parameter_hash(narrow.model) == parameter_hash(wide.model)
    assert output.keys() == same_output.keys()


@pytest.mark.parametrize("name", WEIGHTED)
def test_importance_weights_weigh_the_samples_of_a_loss_if_the_config_says_so(name: str) -> None:
    alone = ["policy.aux_loss_weight=0.0"] if "aux_loss_weight" in DEFAULTS[name] else []  # weights leave that loss out
    _, output = first_step(name, "policy.priority=False", "policy.priority_IS_weight=False", *alone)
    priority, plain = output["priority"], next(output[key] for key in MAIN_LOSSES if key in output).item()
    size = len(priority)
    weight, more = torch.linspace(0.1, 1.0, size), torch.linspace(2.0, 0.5, size)

    def loss_of(weighted: bool, weight: Tensor) -> float:
        words = ("policy.priority=True", f"policy.priority_IS_weight={weighted}", *alone)
        _, output = first_step(name, *words, columns={"weight": weight})
        assert torch.equal(output["priority"], priority)
        return next(output[key] for key in MAIN_LOSSES if key in output).item()

    assert loss_of(False, weight) == plain == pytest.approx(loss_of(True, torch.ones(size)), rel=1e-6)
    first, second, both = (loss_of(True, each) for each in (weight, more, weight + more))
    assert first + second == pytest.approx(both, rel=1e-4)
    assert first != pytest.approx(second, rel=1e-2)


@pytest.mark.parametrize("name", BOOTSTRAPPED)
def test_what_follows_counts_by_the_discount_of_the_steps_taken_unless_it_ended(name: str) -> None:
    _, output = first_step(name)
    size = len(output["priority"])
    ended, none = {"done": torch.ones(size).bool()}, {"done": torch.zeros(size).bool()}
    discounts = [none | {"value_gamma": torch.full((size,), gamma)} for gamma in (0.0, 0.5)]
    outputs = [first_step(name, columns=columns)[1] for columns in (ended, *discounts)]
    assert same_tree(outputs[0], outputs[1])
    assert not torch.equal(outputs[0]["priority"], outputs[2]["priority"])
    ignored = [first_step(name, "policy.learn.ignore_done=True", columns=columns)[1] for columns in (ended, none)]
    assert same_tree(*ignored)
    assert not torch.equal(ignored[0]["priority"], outputs[0]["priority"])


@pytest.mark.parametrize("name", FOLLOWED)
def test_target_theta_mixes_that_share_of_each_network_into_its_target(name: str) -> None:
    play = played(name, "policy.learn.target_theta=0.25")
    policy, moved = parity.create_policy(play[0]), 0
    for seed in range(4):
        before = targets(policy)
        learn(policy, play, [seed])
        after = targets(policy)
        expected = {key: old if torch.equal(after[key][0], old) else old.lerp(after[key][1], 0.25)
                    for key, (old, _) in before.items()}  # fmt: skip
        torch.testing.assert_close({key: new for key, (new, _) in after.items()}, expected)
        moved += any(not torch.equal(after[key][0], old) for key, (old, _) in before.items())
    assert moved == 4 // row(name).targets_every


@pytest.mark.parametrize("name", COPIED)
def test_target_update_freq_says_when_the_target_is_copied(name: str) -> None:
    play = played(name, "policy.learn.target_update_freq=3")
    policy = parity.create_policy(play[0])
    expected = {key: target for key, (target, _) in targets(policy).items()}
    for iteration in range(1, 7):
        learn(policy, play, [iteration])
        if iteration % 3 == 0:
            expected = {key: online for key, (_, online) in targets(policy).items()}
        assert same_tree({key: target for key, (target, _) in targets(policy).items()}, expected)
        assert (iteration % 3 == 0) == all(torch.equal(*pair) for pair in targets(policy).values())


@pytest.mark.parametrize("name", EPSILON)
def test_epsilon_falls_with_the_env_steps_of_all_ranks_and_is_logged(name: str) -> None:
    keys = [f"policy.other.eps.{key}" for key in ("type=linear", "start=1.0", "end=0.2", "decay=100")]
    play = played(name, *keys, *(["policy.noisy_net=False"] if name in NOISY else []))
    policy = parity.create_policy(play[0])
    assert "epsilon" in policy.monitor_vars() or DEFAULTS[name].other.eps.start == 0
    for step, epsilon in ((0, 1.0), (50, 0.6), (1000, 0.2)):
        assert policy.begin_collect(step)["eps"] == pytest.approx(epsilon)
        batch, *_ = batches(policy, *play, torch.float64)
        assert policy.learn(batch)["epsilon"].item() == pytest.approx(epsilon)


def test_noise_of_a_loss_is_drawn_apart_for_every_sample_and_purpose() -> None:
    drawing = set()
    for name in OURS:
        play = played(name, *(["policy.learn.noise=True"] if "noise" in DEFAULTS[name].learn else []))
        policy = parity.create_policy(play[0])
        drawn = tree_leaves(policy._draw_noise(next(batches(policy, *play, torch.float64))))
        numbers = [number for leaf in drawn if leaf.is_floating_point() for number in leaf.flatten().tolist()]
        assert len({*numbers}) == len(numbers), name
        drawing |= {name} if numbers else set()
    assert drawing >= {"sac", "redq", "tqc", "cql", "edac", "td3", "td3_bc", "ddpg", "paddpg", "iqn", "rainbow"}


@pytest.mark.parametrize("name", NOISY)
def test_noisy_networks_explore_while_collecting_alone_and_draw_noise_for_each_batch(name: str) -> None:
    play = played(name, "policy.noisy_net=True")
    policy, obs = parity.create_policy(play[0]), np.random.default_rng(0).normal(size=(4, 4))
    assert policy.begin_collect(0) == {"eps": 0.0}
    noisy = [policy.act(obs, eps=0.0)["logit"] for _ in range(2)]
    state = torch.get_rng_state()
    calm = [policy.act(obs, explore=False)["logit"] for _ in range(2)]
    assert torch.equal(torch.get_rng_state(), state)  # evaluating must not change what is learned
    assert torch.equal(*calm)
    assert not torch.equal(*noisy)
    assert not torch.equal(noisy[0], policy.act(obs, eps=0.0)["logit"])  # evaluating did not switch it off
    (batch,) = batches(policy, *play, torch.float64)
    assert policy.loss(batch)[0] != policy.loss(batch)[0]
    sigma = {key: value.clone() for key, value in policy.model.named_parameters() if "sigma" in key}
    policy.learn(batch)
    assert sigma
    assert not any(torch.equal(value, sigma[key]) for key, value in policy.model.named_parameters() if key in sigma)
