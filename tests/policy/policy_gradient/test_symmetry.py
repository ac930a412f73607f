"""Mirror images in PPO: losses and gradients by hand, normalisation, ranks, and functions that are no mirror."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from gymnasium.spaces import Box
from torch import Tensor, nn

from ding_lite.config import compile_config
from ding_lite.dataset.rollout_dataset import RolloutDataset
from ding_lite.entry import serial_pipeline_onpolicy
from ding_lite.policy import PPOPolicy, create_policy
from ding_lite.policy.policy_gradient.kl_rate import KLRatePolicy
from ding_lite.policy.policy_gradient.symmetry import SymmetryPolicy
from ding_lite.torch_utils.normalizer import Normalizer
from ding_lite.utils import UserError, save_checkpoint
from ding_lite.utils.tree import tree_map
from tests.distributed import parity
from tests.distributed.launcher import run_ranks
from tests.distributed.test_parity import largest_difference
from tests.gpu.test_compiled_loss import needs_compiler
from tests.policy.actors import SHAPES, Table, learn, make_block
from tests.policy.helpers import parameter_hash, same_tree

LN = math.log
PLAIN = ("learn.value_weight=0.0", "learn.adv_norm=False", "learn.value_norm=False", "learn.clip_ratio=0.2")


def swap(obs: Any, action: Any) -> Any:
    """Two states or features in the other order, the opposite choice, or the negative action."""
    image = 1 - action if action.dtype == torch.int64 else -action
    return None if obs is None else obs.flip(-1), image


def opposite(obs: Any, action: Any) -> Any:
    """Negative observations, of three choices the opposite one, whose mask is mirrored too, or the negative action."""
    image = 2 - action if action.dtype == torch.int64 else -action
    if isinstance(obs, dict):
        return {"observation": -obs["observation"], "action_mask": obs["action_mask"].flip(-1)}, image
    return None if obs is None else -obs, image


def make(function: str, *overrides: str, model: nn.Module | None = None, space: str = "discrete") -> Any:
    network = dict(obs_shape=5, action_shape=SHAPES[space], action_space=space, encoder_hidden_size_list=[16, 8])
    main = dict(policy=dict(model={} if model else network, learn=dict(batch_size=4), collect=dict(n_sample=64)))
    pair = (main, dict(env=dict(env_id="CartPole-v1"), policy=dict(type="ppo")))
    words = [f"policy.{item}" for item in overrides]
    words += [f"policy.symmetry.mirror={function if ':' in function else f'{__name__}:{function}'}"] if function else []
    torch.manual_seed(0)
    return create_policy(compile_config(pair, model_given=model is not None, overrides=words).policy, model)


def table(*probabilities: float) -> Table:
    """Return a policy of two states with these probabilities of action 0."""
    return Table([[LN(p), LN(1 - p)] for p in probabilities], [0.5, 0.5])


def samples(states: list[int], actions: list[int], adv: list[float]) -> dict[str, Any]:
    """Return a minibatch of one-hot states with its images; pi_old is 1/2, 1/2."""
    obs, action = torch.eye(2)[states], torch.tensor(actions)
    batch = {"obs": obs, "action": action, "logit": torch.zeros(len(states), 2), "adv": torch.tensor(adv)}
    batch |= {key: torch.zeros(len(states)) for key in ("value", "return_")}
    return batch | {"mirrored": {"obs": obs.flip(-1), "action": 1 - action, "logit": torch.zeros(len(states), 2)}}


def test_the_loss_of_a_sample_and_its_image_by_hand() -> None:
    # pi_new is 3/4, 1/4 in state 0 and 0.6, 0.4 in state 1. The sample's ratio is 1.5, clipped 1.2; that of its image,
    # action 1 in state 1, is 0.4 / 0.5. The mean of -1.2 and -0.8 is -1.
    policy = make("swap", *PLAIN, model=table(0.75, 0.6))
    loss, figures = policy.loss(samples([0], [0], [1.0]))
    assert loss.item() == pytest.approx(-1.0)
    assert figures["policy_loss"].item() == pytest.approx(-1.2)
    assert "symmetry_loss" not in figures


@pytest.mark.parametrize("space", ["discrete", "continuous"])
def test_it_is_the_loss_of_the_doubled_minibatch(space: str) -> None:
    policy, plain = make("opposite", "learn.kl_beta=0.5", space=space), make("", "learn.kl_beta=0.5", space=space)
    batch = next(iter(policy.batches(policy.to_samples(make_block(policy)))))
    with torch.no_grad():
        for parameter in policy.model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    plain.model.load_state_dict(policy.model.state_dict())
    batch["weight"] = torch.rand(len(batch["adv"]))
    both = tree_map(lambda own, image: torch.cat([own, image]), {key: batch[key] for key in batch["mirrored"]},
                    batch["mirrored"])  # fmt: skip
    both |= {key: batch[key].repeat(2) for key in ("adv", "value", "return_", "weight")}
    torch.testing.assert_close(policy.loss(batch)[0], plain.loss(both)[0])


def test_a_symmetric_policy_stays_symmetric_only_with_the_images() -> None:
    for function in ("swap", ""):
        policy = make(function, "learn.learning_rate=0.01", model=table(0.7, 0.3))
        gen = torch.Generator().manual_seed(0)
        for _ in range(5):  # whatever was collected
            states, actions = torch.randint(2, (2, 8), generator=gen).tolist()
            policy.learn(samples(states, actions, torch.randn(8, generator=gen).tolist()))
        logit: Tensor = policy.model._parts["logit"]
        assert (logit[0] - torch.tensor([LN(0.7), LN(0.3)])).abs().max() > 0.01
        assert torch.allclose(logit, logit.flip(0, 1), atol=1e-6) == bool(function)
        assert torch.allclose(policy.model.value, policy.model.value.flip(0), atol=1e-6) == bool(function)


def test_the_symmetry_loss_by_hand() -> None:
    words = ("symmetry.augment=False", "symmetry.loss_weight=2.0")
    batch, base = samples([0], [0], [1.0]), make("", *PLAIN, model=table(0.75, 0.6)).loss(samples([0], [0], [1.0]))[0]
    # the image of 3/4, 1/4 in state 0 is 1/4, 3/4, and state 1 has 0.6, 0.4: squares of 0.35
    policy = make("swap", *PLAIN, *words, model=table(0.75, 0.6))
    loss, figures = policy.loss(batch)
    assert figures["symmetry_loss"].item() == pytest.approx(0.35**2)
    assert (loss - base).item() == pytest.approx(2 * 0.35**2, rel=1e-4)
    policy.model.zero_grad()
    loss.backward()
    assert policy.model._parts["logit"].grad[1].abs().min() > 0  # of the image; state 0 has the gradient of PPO alone
    expected = make("", *PLAIN, model=table(0.75, 0.6))
    expected.loss(batch)[0].backward()
    torch.testing.assert_close(policy.model._parts["logit"].grad[0], expected.model._parts["logit"].grad[0])
    for weight in (0.5, 3.0):  # of samples
        _, figures = policy.loss(batch | {"weight": torch.tensor([weight])})
        assert figures["symmetry_loss"].item() == pytest.approx(weight * 0.35**2)
    _, figures = make("swap", *PLAIN, *words, model=table(0.75, 0.25)).loss(batch)
    assert figures["symmetry_loss"].item() == pytest.approx(0.0, abs=1e-12)


def test_the_symmetry_loss_of_continuous_actions_by_hand() -> None:
    # mu is 0.5, -0.2 in state 0 and 0.1, 0.4 in state 1, whose image should be -0.5, 0.2: (0.6^2 + 0.2^2) / 2 = 0.2
    model = Table({"mu": [[0.5, -0.2], [0.1, 0.4]], "sigma": [[1.0, 1.0], [1.0, 1.0]]}, [0.0, 0.0])
    policy = make("swap", *PLAIN, "symmetry.loss_weight=1.0", model=model)
    old = {"mu": torch.zeros(1, 2), "sigma": torch.ones(1, 2)}
    batch = samples([0], [0], [1.0]) | {"action": torch.zeros(1, 2), "logit": old}
    batch["mirrored"] |= {"action": torch.zeros(1, 2), "logit": old}
    assert policy.loss(batch)[1]["symmetry_loss"].item() == pytest.approx(0.2)


def test_images_are_normalised_by_the_statistics_of_their_samples() -> None:
    policy = make("opposite")
    policy.normalizer = Normalizer(Box(-100, 100, (5,)), None)
    first, second = (make_block(policy, seed=seed) for seed in (1, 2))
    policy.to_samples(first | {"obs": first["obs"] * 3 + 1})
    acted = copy.deepcopy(policy.normalizer)
    found = policy.to_samples(second)
    torch.testing.assert_close(found["mirrored"]["obs"], acted.normalize_obs(-second["obs"]).flatten(0, 1))
    assert not torch.allclose(found["mirrored"]["obs"], -found["obs"].flatten(0, 1), atol=0.1)


def in_place(obs: Any, action: Any) -> Any:
    return None if obs is None else obs.neg_(), action.neg_()


def test_a_function_may_write_into_its_arguments() -> None:
    found = []
    for function in ("in_place", "opposite"):
        policy = make(function, space="continuous")
        before = copy.deepcopy(block := make_block(policy))
        found.append(policy.to_samples(block)["mirrored"])
        assert same_tree(block, before)
    assert same_tree(*found)


def affine(obs: Any, action: Any) -> Any:
    return obs, 1.0 - action


def test_the_spread_of_an_image_is_that_of_its_action_whatever_is_added() -> None:
    policy = make("affine", space="continuous")
    logit = policy.to_samples(block := make_block(policy))["mirrored"]["logit"]
    torch.testing.assert_close(logit["mu"], 1 - block["logit"]["mu"].flatten(0, 1))
    torch.testing.assert_close(logit["sigma"], block["logit"]["sigma"].flatten(0, 1))


def problem(kind: str, *overrides: str) -> dict[str, Any]:
    words = [f"policy.symmetry.mirror={__name__}:opposite", "policy.symmetry.loss_weight=0.5", *overrides]
    cfg = parity.compile_problem("ppo", kind, words)
    return {"cfg": cfg, "block": parity.collect_block(cfg)}


def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    problems = {kind: problem(kind) for kind in ("discrete", "continuous")}
    problems["masked"] = problem("discrete", "env.masked=True")
    alone = {name: parity.run_problem(each) for name, each in problems.items()}
    torch.save(problems, tmp_path / "problems.pt")
    run_ranks(["-m", "tests.distributed.call", "tests.distributed.parity", "run_all", str(tmp_path)], nproc=2)
    for rank in range(2):
        states = torch.load(tmp_path / f"world2_rank{rank}.pt", weights_only=False)
        for name, state in states.items():
            assert not isinstance(state, str), state
            difference, path = largest_difference(alone[name][0], state)
            assert difference <= 1e-9, f"{name}: {path} of rank {rank} is off by {difference}"


@needs_compiler
@pytest.mark.slow
def test_a_compiled_loss_takes_the_same_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parity, "PartlyTouched", lambda model: model)  # it looks at its inputs, which stops a compiler
    given, states = problem("continuous"), []
    for given["cfg"].policy.compile in (False, True):
        torch.manual_seed(0)
        states += parity.learn(given["cfg"], given["block"], range(parity.NUM_ENVS))
    difference, where = largest_difference(*states)
    assert difference < 1e-9, where


def test_learning_goes_on_from_a_state_as_if_it_had_not_stopped() -> None:
    policy, other = (make("opposite", "symmetry.loss_weight=1.0") for _ in range(2))
    block = make_block(policy)
    learn(policy, policy.to_samples(block))
    other.load_state_dict(copy.deepcopy(policy.state_dict()))
    for each in (policy, other):
        torch.manual_seed(1)
        learn(each, each.to_samples(block))
    assert same_tree(policy.state_dict(), other.state_dict())


def test_a_pretrained_policy_is_near_its_image_too(tmp_path: Path) -> None:
    pretrained = make("")
    save_checkpoint(path := str(tmp_path / "pretrained.pth.tar"), {"policy": pretrained.state_dict()})
    policy = make("opposite", f"learn.pretrained_model_path={path}", "learn.kl_beta=0.5")
    found = policy.to_samples(block := make_block(policy))["mirrored"]["logit_pretrained"]
    assert torch.equal(found, block["logit_pretrained"].flatten(0, 1).flip(-1))


def test_several_wrappers_make_one_class_also_for_pickle() -> None:
    cfg = make("opposite", "learn.kl_learning_rate=True", "learn.target_kl=0.01").current_config
    policy = create_policy(cfg, enable_field=("collect", "eval"))
    assert {SymmetryPolicy, KLRatePolicy, PPOPolicy} <= {*type(policy).__mro__}
    assert type(pickle.loads(pickle.dumps(policy))) is type(copy.deepcopy(policy)) is type(policy)


def test_the_rate_follows_the_divergence_of_the_samples_alone() -> None:
    # pi_old is pi_new in state 0, whose image is state 1, where pi_new is far from the image of pi_old
    policy = make("swap", "learn.kl_learning_rate=True", "learn.target_kl=0.01", model=table(0.5, 0.99))
    output = policy.learn(samples([0, 0], [0, 1], [1.0, -1.0]))
    assert output["kl"].item() == pytest.approx(0.0, abs=1e-7)
    assert output["learning_rate"].item() == pytest.approx(3e-4 * 1.5)


def test_a_data_set_of_rollouts_has_the_images_too() -> None:
    symmetry = dict(mirror="dizoo.classic_control.mirrors:cartpole")
    policy = dict(symmetry=symmetry, learn=dict(value_norm=False), collect=dict(n_sample=64))
    main = dict(env=dict(env_id="CartPole-v1", collector_env_num=2), policy=policy)
    dataset = RolloutDataset((main, dict(policy=dict(type="ppo"))), unit="batch")
    batch = next(iter(dataset))
    assert torch.equal(batch["mirrored"]["action"], 1 - batch["action"])
    assert dataset.policy.loss(batch)[0].isfinite()


def test_a_run_with_environments_of_one_tensor_learns_from_images(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    hashes = []
    for mirror in ("dizoo.classic_control.mirrors:cartpole", ""):
        env = dict(collector_env_num=8, evaluator_env_num=8, n_evaluator_episode=8, norm_obs=True)
        learning = dict(learner=dict(hook=dict(log_show_after_iter=1)), batch_size=64, epoch_per_collect=2)
        policy = dict(learn=learning, collect=dict(n_sample=128))
        policy |= dict(symmetry=dict(mirror=mirror, loss_weight=1.0)) if mirror else {}
        main = dict(exp_name=f"run{bool(mirror)}", env=env | dict(env_id="CartPole-v1"), policy=policy)
        names = ["dizoo.classic_control.cartpole.envs.cartpole_env"]
        create = dict(env=dict(type="cartpole", import_names=names), env_manager=dict(type="batched"))
        trained: Any = serial_pipeline_onpolicy((main, create | dict(policy=dict(type="ppo"))), max_env_step=256)
        hashes.append(parameter_hash(trained.model))
        assert ("symmetry_loss" in trained.monitor_vars()) == bool(mirror)
    assert len({*hashes}) == 2


def shorter(obs: Any, action: Any) -> Any:
    return obs[:, :4], action


def doubled(obs: Any, action: Any) -> Any:
    return 2 * obs, action


def turned(obs: Any, action: Any) -> Any:
    return obs, (action + 1) % 3


def alone(obs: Any, action: Any) -> Any:
    return obs


def larger(obs: Any, action: Any) -> Any:
    return obs, 1.0 / action


@pytest.mark.parametrize(
    ("function", "space", "message"),
    [
        ("shorter", "discrete", r"expected an image of obs of torch.float32 \[32, 5\], got torch.float32 \[32, 4\]"),
        ("doubled", "discrete", "the image of the image of obs is not obs"),
        ("turned", "discrete", "the image of the image of action is not action"),
        ("swap", "discrete", r"expected pairs of actions, but 0 to 2 become \[1, 0, -1\]"),
        ("larger", "continuous", "an action's image is more or less likely than the action: only swap and negate"),
        ("alone", "discrete", "ValueError: too many values to unpack"),
        ("opposite", "hybrid", "only Discrete and Box actions have one"),
        ("opposite", "multi_discrete", "only Discrete and Box actions have one"),
    ],
)
def test_a_function_that_is_no_mirror_is_one_line(function: str, space: str, message: str) -> None:
    policy = make(function, space=space)
    with pytest.raises(UserError, match=rf"^policy.symmetry.mirror='{__name__}:{function}' is no mirror .*({message})"):
        policy.to_samples(make_block(policy))


def keeps_mask(obs: Any, action: Any) -> Any:
    return None if obs is None else obs | {"observation": -obs["observation"]}, 2 - action


def test_a_mask_that_is_not_mirrored_is_one_line() -> None:
    words = [f"policy.symmetry.mirror={__name__}:keeps_mask", "env.masked=True"]
    cfg = parity.compile_problem("ppo", "discrete", words)
    policy: Any = parity.create_policy(cfg)
    with pytest.raises(UserError, match=r"the image of obs\.action_mask does not allow the images of the allowed"):
        policy.to_samples(parity.collect_block(cfg))
