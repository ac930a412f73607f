"""Numbers of the config that change during a run: what reads them, what counts, and what a checkpoint keeps."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from easydict import EasyDict
from torch import Tensor

from ding_lite.config import compile_config
from ding_lite.policy import DQNPolicy, Policy
from ding_lite.policy.checkpointed import load_to_act
from ding_lite.torch_utils.optimizer import OPTIMIZER_KEYS
from ding_lite.utils.key import SECTIONS, Key, declared_keys, is_schedule, why_constant
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from ding_lite.utils.schedule import find_schedules
from tests.algorithms import ALGORITHMS, policy_keys, row
from tests.distributed import parity
from tests.policy.helpers import OURS, batches_of, compile_for, make_batch, make_cfg, make_policy, same_tree


def linear(start: float, end: float, over: int, by: str) -> dict[str, Any]:
    return dict(type="linear", start=start, end=end, over=over, by=by)


class Weighted(DQNPolicy):
    """Its loss is multiplied by a number of its config, and it acts by another."""

    config = dict(learn=dict(scale=Key(1.0, "factor of the loss")), collect=dict(share=Key(0.5, "any number")))

    def _loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        loss, figures = super()._loss(batch)
        return loss * self._cfg.learn.scale, figures

    def _begin_collect(self, envstep: int) -> dict[str, Any]:
        return {"share": self._cfg.collect.share}


def weighted(**learn: Any) -> Any:
    """Return a new `Weighted` policy with these keys of `learn`, and `share` of `collect`."""
    cfg, torch_seed = make_cfg(), 0
    share = learn.pop("share", 0.5)
    cfg.learn.update({"scale": 1.0, "learning_rate": 0.01, **learn})
    cfg.collect.share = share
    torch.manual_seed(torch_seed)
    return Weighted(cfg)


def forward(policy: Any, seed: int = 0) -> dict[str, Any]:
    return {key: float(value.double().mean()) for key, value in policy.learn(make_batch(8, seed)).items()}


def test_a_number_by_iteration_is_that_of_the_iterations_before() -> None:
    policy, batch = weighted(scale=linear(1.0, 3.0, 2, "iteration"), learning_rate=0.0), make_batch(8)
    losses = [float(policy.learn(batch)["total_loss"]) for _ in range(4)]  # nothing is learned
    assert [loss / losses[0] for loss in losses] == pytest.approx([1.0, 2.0, 3.0, 3.0])


def test_a_number_by_env_step_is_set_before_a_collect_and_holds_until_the_next() -> None:
    policy = weighted(scale=linear(2.0, 0.0, 100, "env_step"), share=linear(0.0, 1.0, 50, "env_step"))
    assert policy.current_config.learn.scale == 2.0
    shares, scales = [], []
    for envstep in (0, 10, 50, 200):
        shares.append(policy.begin_collect(envstep)["share"])
        scales += [forward(policy)["scale"], forward(policy)["scale"]]
    assert shares == pytest.approx([0.0, 0.2, 1.0, 1.0])
    assert scales == pytest.approx([2.0, 2.0, 1.8, 1.8, 1.0, 1.0, 0.0, 0.0])


def test_a_number_by_collect_counts_the_collects_before() -> None:
    policy = weighted(share=linear(0.0, 1.0, 4, "collect"))
    assert [policy.begin_collect(8 * step)["share"] for step in range(3)] == [0.0, 0.25, 0.5]


def test_every_scheduled_key_is_logged_by_its_name() -> None:
    schedule = linear(1.0, 0.0, 4, "iteration")
    policy = weighted(scale=schedule, learning_rate=schedule, share=schedule)
    names = policy.monitor_vars()
    assert {"scale", "learning_rate", "collect.share", "q_value"} <= set(names)
    forward(policy)
    figures = forward(policy)
    assert [figures[key] for key in ("scale", "learning_rate", "collect.share")] == [0.75] * 3


def test_the_compiled_config_does_not_change() -> None:
    cfg = make_cfg("learn.learning_rate={'type': 'linear', 'start': 1, 'end': 0, 'over': 2, 'by': 'iteration'}")
    before = copy.deepcopy(cfg)
    policy = DQNPolicy(cfg)
    forward(policy)
    assert cfg == before


def test_a_policy_that_only_acts_explores_with_the_numbers_of_its_checkpoint() -> None:
    policy, other = (weighted(share=linear(0.0, 1.0, 10, "iteration")) for _ in range(2))
    for seed in range(4):
        forward(policy, seed)
    load_to_act(other, policy.state_dict())
    assert other.begin_collect(0) == {"share": pytest.approx(0.4)}


def test_a_run_without_schedules_is_continued_with_one() -> None:
    plain = weighted()
    for number in range(3):
        plain.begin_collect(8 * number)
        forward(plain)
    for by, scale in (("iteration", 1.3), ("collect", 1.3), ("env_step", 1.5)):
        policy = weighted(scale=linear(1.0, 2.0, 10, by))
        policy.load_state_dict(plain.state_dict())
        policy.begin_collect(5)  # the resumed run's next collect
        assert forward(policy)["scale"] == pytest.approx(scale)


# Every registered policy.


def problem(name: str) -> EasyDict:
    return compile_for(name, "policy.multi_gpu=False").policy


def numbers(name: str) -> dict[str, Key]:
    """Return the keys of a policy that may be schedules."""
    keys = declared_keys(POLICY_REGISTRY[name])
    may_change = {path: key for path, key in keys.items() if not why_constant(f"policy.{path}", key)}
    return {path: key for path, key in may_change.items() if is_schedule(f"policy.{path}", key, {})}


@pytest.mark.parametrize("name", OURS)
def test_a_number_that_is_read_while_a_policy_is_built_is_constant_or_an_optimizers(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A policy that keeps a number, or computes with it, would not see it change: declare the key `constant=True`."""
    cfg, read = problem(name), set()
    watched = {id(cfg): "", **{id(cfg[section]): f"{section}." for section in SECTIONS}}
    original = EasyDict.__getattribute__

    def get(self: EasyDict, key: str) -> Any:
        if id(self) in watched:
            read.add(f"{watched[id(self)]}{key}")
        return original(self, key)

    policy_cls: Any = POLICY_REGISTRY[name]
    monkeypatch.setattr(EasyDict, "__getattribute__", get)
    policy_cls(cfg)
    monkeypatch.undo()
    allowed = {f"learn.{key}" for key in OPTIMIZER_KEYS} | {"learn.target_theta", row(name).followed}
    allowed |= {"learn.alpha"} if "learn.auto_alpha" in declared_keys(policy_cls) else set()
    kept = {path for path in read & set(numbers(name)) - allowed if "learning_rate" not in path}
    assert "learn.optimizer" in read  # this test sees what is read
    assert kept == set()


@pytest.mark.parametrize("name", OURS)
def test_a_schedule_changes_no_other_value_of_a_config(name: str) -> None:
    """A check may set values that depend on others, such as `learn.target_update_freq`."""
    path, *_ = (path for path in numbers(name) if path.startswith("learn.learning_rate"))
    schedule = linear(1e-3, 1e-4, 10, "iteration")
    plain, scheduled = compile_for(name), compile_for(name, f"policy.{path}={schedule}")
    assert dict(scheduled.policy.learn.pop(path.removeprefix("learn."))) == schedule
    plain.policy.learn.pop(path.removeprefix("learn."))
    assert scheduled == plain


def test_a_checkpoint_that_follows_a_resume_at_once_is_the_one_before() -> None:
    policy, resumed = (weighted(learning_rate=linear(0.01, 0.0, 4, "iteration")) for _ in range(2))
    forward(policy)
    forward(policy)  # at another rate than a new policy has
    saved = policy.state_dict()
    resumed.load_state_dict(copy.deepcopy(saved))
    assert same_tree(saved, resumed.state_dict())


@pytest.mark.parametrize("name", OURS)
def test_every_learning_rate_of_every_policy_follows_its_schedule(name: str) -> None:
    cfg = problem(name)
    cfg.compile = True  # numbers that a loss may read are then tensors, and no optimizer would follow one
    rates = [path for path in numbers(name) if "learning_rate" in path]
    for number, path in enumerate(rates, start=1):
        cfg.learn[path.removeprefix("learn.")] = linear(number, 0.0, 4, "iteration")
    policy_cls: Any = POLICY_REGISTRY[name]
    policy: Policy = policy_cls(cfg)
    policy.schedules._counts["iteration"] = 2  # half of the way
    for optimizer in policy._optimizers.values():
        optimizer._set_options()
    found = {float(rate) for key, rate in policy._optimizers.figures().items() if key.endswith("learning_rate")}
    assert rates
    assert found <= {number / 2 for number in range(1, len(rates) + 1)}
    assert len(policy._optimizers) >= len(rates) - 1  # an optimizer may be switched off


# Single keys: at env step 50 of a schedule over 100, steps are those with the middle number.


def learned_at(cfg: EasyDict, plain: EasyDict, envstep: int) -> dict[str, Any]:
    """Return what two steps change that follow a collect after `envstep` env steps.

    Args:
        cfg: the config of the policy.
        plain: the same config without schedules, by which the samples are collected and replayed.
        envstep: env steps before the collect.
    """
    for one in (cfg, plain):
        one.policy.multi_gpu = False
        one.policy.learn.batch_size = 10**6
    block = parity.collect_block(plain)
    policy = parity.create_policy(cfg)
    policy.begin_collect(envstep)
    for seed in range(2):
        batch = next(batches_of(policy, plain, block))
        torch.manual_seed(seed)
        policy.learn(batch)
    state = policy.state_dict()
    return {key: value for key, value in state.items() if key != "schedules"}


# Each line: policies, the key, its first and last number, and other keys; separated by spaces. Rows of the table add
# the keys of one policy.
KEYS = """
mdqn,acer,impala,a2c,ppo,pg,ppo_offpolicy discount_factor 0.5 1.0
dqn,sac,sqn,acer,discrete_cql learn.target_theta 0.25 0.75
sac,tqc,discrete_sac learn.alpha 0.25 0.75 learn.auto_alpha=False
dqn learn.momentum 0.25 0.75 learn.optimizer=sgd
dqn learn.momentum 0.25 0.75 learn.optimizer=rmsprop
dqn learn.adam_eps 0.25 0.75
dqn learn.weight_decay 0.25 0.75 learn.optimizer=adamw
dqn learn.grad_clip_value 0.03125 0.09375 learn.grad_clip_type=clip_norm
"""
CASES = [(name, *words) for names, *words in map(str.split, KEYS.strip().splitlines()) for name in names.split(",")]
CASES += [(name, *words.split()) for name, each in ALGORITHMS.items() for words in each.scheduled]


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_the_number_in_effect_at_an_env_step_is_that_of_the_schedule(case: tuple[str, ...]) -> None:
    name, path, first, last, *words = case
    start, end, others = float(first), float(last), policy_keys(" ".join(words))

    def learned(value: Any, envstep: int) -> dict[str, Any]:
        plain = compile_for(name, *others, f"policy.{path}={middle}")
        return learned_at(compile_for(name, *others, f"policy.{path}={value}"), plain, envstep)

    middle, by = (start + end) / 2, "iteration" if "cql" in name else "env_step"  # which collect nothing
    schedule = linear(start, end, 100, by)
    if by == "iteration":
        schedule = dict(type="piecewise", points=[[0, middle], [1, middle]], by=by)
    assert same_tree(learned(schedule, 50), learned(middle, 50))
    assert not same_tree(learned(start or 0.5, 50), learned(middle, 50))


def test_an_evaluation_plays_with_the_epsilon_that_is_current_when_it_starts() -> None:
    policy = make_policy(f"eval.eps={linear(0.0, 1.0, 4, 'iteration')}")
    obs, seen = torch.randn(1, 5).expand(400, 5), []
    for seed in range(5):
        policy.reset(explore=False)
        assert policy.current_config.eval.eps == pytest.approx(seed / 4)
        action = policy.act(obs, explore=False)["action"]
        seen.append(float((action != action.mode().values).double().mean()))
        policy.learn(make_batch(8, seed))
    assert seen[0] == 0.0
    # With epsilon 1, two thirds of 400 actions differ from the most frequent of three; standard deviation 0.024.
    assert seen[-1] == pytest.approx(2 / 3, abs=0.1)
    assert seen[1] < seen[2] < seen[4]


def test_a_fixed_alpha_after_a_resume_is_that_of_the_config() -> None:
    first = compile_for("sac", "policy.learn.auto_alpha=False", "policy.learn.alpha=0.5")
    other = compile_for("sac", "policy.learn.auto_alpha=False", "policy.learn.alpha=0.125")
    policies = [POLICY_REGISTRY["sac"](cfg.policy) for cfg in (first, other)]
    policies[1].load_state_dict(copy.deepcopy(policies[0].state_dict()))
    assert policies[1]._alpha().item() == pytest.approx(0.125)


def test_rewards_are_normalised_with_one_discount() -> None:
    env, schedule = dict(env_id="CartPole-v1"), linear(0.5, 1.0, 10, "env_step")
    create = dict(policy=dict(type="dqn"))
    given = dict(use_norm=True, reward_discount=0.9)
    compile_config((dict(env=env | dict(norm_reward=given), policy=dict(discount_factor=schedule)), create))
    with pytest.raises(ConfigError, match=r"^env.norm_reward.reward_discount: expected a number, as policy.discount_f"):
        compile_config((dict(env=env | dict(norm_reward=True), policy=dict(discount_factor=schedule)), create))


# What is refused when the config compiles.

SCHEDULE = "{'type': 'linear', 'start': 0.1, 'end': 0.01, 'over': 100, 'by': '%s'}"


@pytest.mark.parametrize(
    "path", ["learn.learning_rate", "learn.weight_decay", "learn.grad_clip_value", "learn.target_theta", "eval.eps"]
)
def test_numbers_that_a_compiled_loss_does_not_read_may_change(path: str) -> None:
    cfg = make_cfg("compile=True", "learn.grad_clip_type=clip_value", f"{path}={SCHEDULE % 'iteration'}")
    assert find_schedules(cfg, DQNPolicy)[path].start == 0.1


@pytest.mark.parametrize(
    "given", ["learn.clip_ratio={}", "learn.clip_scheduler={{'epoch_num': 4, 'min_clip_lambda': 0.2}}"]
)
def test_other_numbers_of_a_compiled_loss_are_its_inputs(given: str) -> None:
    policy = POLICY_REGISTRY["ppo"](make_cfg("compile=True", given.format(SCHEDULE % "collect"), kind="ppo"))
    number = policy.current_config.learn.clip_ratio
    before = number.item()
    for envstep in range(3):
        policy.begin_collect(envstep)
    assert policy.current_config.learn.clip_ratio is number  # another tensor would not reach the graph
    assert 0 < number.item() < before
