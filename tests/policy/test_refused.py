"""Values that a policy cannot use are refused in one line when the config compiles or the policy is built."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ding_lite.config.schema import TOP_KEYS, class_options
from ding_lite.envs.keys import ENV_KEYS
from ding_lite.utils.key import declared_keys
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
from tests.algorithms import ALGORITHMS, policy_keys
from tests.policy.helpers import OURS, compile_for

# A policy that has the key, by the key's path and what it allows; docs/config.md has all of it.
LIMITED = {}
for policy in OURS:
    own = {f"policy.{path}": key for path, key in declared_keys(POLICY_REGISTRY[policy]).items()}
    for path, key in (own | class_options(object, "", TOP_KEYS) | class_options(object, "env.", ENV_KEYS)).items():
        limits = (key.low, key.high, key.above, key.below, key.choices)
        if any(limit is not None and limit != () for limit in limits):
            LIMITED[path, *limits] = policy


@pytest.mark.parametrize("limited", LIMITED, ids=lambda limited: limited[0])
def test_a_value_beyond_the_limits_of_its_key_is_one_line(limited: tuple[Any, ...]) -> None:
    path, low, high, above, below, choices = limited
    beyond = [None if low is None else low - 1, None if high is None else high + 1, above, below]
    beyond.append("no such choice" if choices else None)
    for value in (value for value in beyond if value is not None):
        given = [value] if path == "policy.learn.betas" else value
        with pytest.raises(ConfigError, match=rf"^{re.escape(path)}[^\n]*$"):
            compile_for(LIMITED[limited], f"{path}={given}")


# Each line: policies, keys of `policy.` separated by spaces, and a part of the error. Policies stand for all that have
# the key; what one alone refuses is in its row of the table.
CASES = """
dqn,ppo,discrete_sac | multi_agent=True | learns for several agents: expected Dict observations with agent_state
sac | multi_agent=True | policy.multi_agent: expected False (this policy has a single agent), got bool True
dqn | multi_agent=True other.eps.spread=7.0 | but with policy.multi_agent=True each agent explores for itself: leave one
dqn,rainbow | priority=False priority_IS_weight=True | set policy.priority=True too
mdqn,sql | double=True | double
c51,rainbow | model.v_min=20.0 | policy.model.v_min=20.0 must be smaller than policy.model.v_max=10.0
c51,d4pg | model.n_atom=1 | policy.model.n_atom: expected at least 2, got 1
qrdqn,iqn,fqf | model.num_quantiles=0 | policy.model.num_quantiles: expected at least 1, got 0
madqn,r2d2 | noisy_net=True | policy.noisy_net
madqn,r2d2 | double=False | policy.double
coma,madqn,r2d2 | model.lstm_type=rnn | lstm_type: expected
pdqn,d4pg | model.twin_critic=True | Unknown key 'policy.model.twin_critic'
td3_bc,ddpg | learn.noise_range.min=1.0 | expected min <= max, got 1.0 and 0.5
iql,acer | learn.learning_rate=0.1 | Unknown key 'policy.learn.learning_rate'
a2c,coma | collect.n_sample=None | policy.collect.n_sample
a2c,coma,pg,ppo,ppo_pg | on_policy=False | policy.on_policy: expected True for policy '
a2c,impala,ppo_offpolicy | model.lstm_type=lstm | lstm_type=lstm is not possible with policy '
acer,impala | learn.batch_size=100000 | fewer than policy.learn.batch_size=100000: nothing would be learned
pg,ppo_pg | collect.n_sample=64 | Unknown key 'policy.collect.n_sample'. Known in 'policy.collect': actor_timeout
coma,ppo | collect.n_episode=8 | Unknown key 'policy.collect.n_episode'
dqn_stdim,ppo_stdim | aux_model.heads=[1] | policy.aux_model.heads: expected two numbers such as [1, 1], got [1].
dqn_stdim,ppo_stdim | multi_agent=True | policy.multi_agent: expected False (this policy has a single agent)
dqn | learn.optimizer=sgd learn.betas=[0.9,0.99] | policy.learn.betas=[0.9, 0.99] has no effect with policy.learn.opti
dqn | learn.optimizer=sgd learn.betas=[0.9,0.99] | leave it out, or set optimizer to 'adam' or 'adamw'.
dqn | learn.optimizer=sgd learn.adam_eps=0.1 | policy.learn.adam_eps=0.1 has no effect with policy.learn.optimizer='sgd'
dqn | learn.betas=[0.9] | policy.learn.betas: expected two numbers such as [0.9, 0.999], got [0.9].
dqn | learn.betas=0.9 | policy.learn.betas: expected list[float] or None, got float 0.9.
dqn | ddp.static_graph=True | policy.ddp.static_graph=True has an effect only with policy.data_parallel='ddp'
dqn | data_parallel=ddp ddp.comm_hook=powersgd ddp.find_unused_parameters=True | set policy.ddp.find_unused
dqn | data_parallel=ddp ddp.comm_hook=powersgd learn.on_nonfinite=skip | 'powersgd' adds the part of a gradient that
dqn | data_parallel=ddp ddp.static_graph=True ddp.find_unused_parameters=True | static_graph=True finds unused
dqn | data_parallel=ddp ddp.sync_batchnorm=True | policy.ddp.sync_batchnorm=True works only on GPUs
dqn | data_parallel=ddp ddp.comm_hook=bf16 | policy.ddp.comm_hook='bf16' works only on GPUs
dqn | compile=True data_parallel=ddp | policy.compile=True computes all gradients at once
dqn | compile=True bp_update_sync=False | policy.compile=True computes all gradients at once
dqn | other.eps.start=BY(env_step) | cannot change during a run, because policy.other.eps is a schedule itself
sqn | learn.alpha=BY(iteration) | because it is learned from this value on: expected a number, got {'type
sac | learn.init_w=BY(iteration) | because parameters are initialised once: expected a number, got {'type
c51 | model.v_min=BY(iteration) | because it is only read when the run is built: expected a number, got {
dqn | ddp.bucket_cap_mb=BY(iteration) | because it is only read when the run is built: expected a number
rainbow | other.replay_buffer.alpha=BY(iteration) | because the buffer stores priorities to this power: expected
rainbow | other.replay_buffer.beta=BY(iteration) | because it rises to 1 by itself, see anneal_step: expected
sac | learn.alpha=BY(env_step) | but policy.learn.auto_alpha=True learns alpha: give a number, or set auto
td3_bc | discount_factor=BY(iteration) | is a schedule, but policy 'td3_bc' learns from a data set, whose rewards are
dqn | learn.learning_rate=BY(steps) | policy.learn.learning_rate.by: expected one of 'env_step', 'iter
dqn | learn.update_per_collect=BY(collect) | cannot change during a run, because it is a whole number
bc | learn.learning_rate=BY(env_step) | learn.learning_rate.by: expected 'iteration', got 'env_step', because policy
bc | learn.learning_rate=BY(collect) | because policy 'bc' learns from a data set and collects nothing.
ppo | learn.lr_scheduler=EPOCHS learn.learning_rate=BY(collect) | learn.lr_scheduler contradicts the schedule of
ppo | learn.kl_adaptive=True learn.target_kl=0.1 learn.kl_beta=BY(collect) | contradicts the schedule of
ppo | learn.kl_learning_rate=True learn.target_kl=0.01 learn.learning_rate=BY(collect) | contradicts the schedule of
mappo | symmetry.mirror=tests.toys:Toy | symmetry is not possible with policy.multi_agent=True: leave one out
ppg,ppo_offpolicy,ppo_stdim | symmetry.mirror=tests.toys:Toy | Unknown key 'policy.symmetry.mirror'
dqn | learn.optimizer=sgd learn.momentum=ZERO | learn.momentum: expected numbers above 0 in its schedule, got 0.0
cql | learn.with_lagrange=True learn.lagrange_thresh=ZERO | needs a lagrange_thresh above 0, got 0.0
iqn | compile=True learn.kappa=BY(iteration) | learn.kappa is a schedule, but a loss compiled by policy.compile=True
ppo | compile=True learn.kl_beta=BY(iteration) | learn.kl_beta is a schedule, but a loss compiled by
td3 | compile=True learn.noise_range.max=BY(iteration) | noise_range.max is a schedule, but a loss compiled by
"""
SHORT = {
    r"BY\((\w+)\)": r"{'type':'linear','start':0.1,'end':0.01,'over':100,'by':'\1'}",
    "ZERO": "{'type':'piecewise','points':[[0,0.9],[10,0.0]],'by':'iteration'}",
    "EPOCHS": "{'epoch_num':4,'min_lr_lambda':0.2}",
}


OWN = [f"{name} | {case}" for name, each in ALGORITHMS.items() for case in each.refused]


@pytest.mark.parametrize("case", [*CASES.strip().splitlines(), *OWN])
def test_a_value_that_cannot_be_is_one_line(case: str) -> None:
    names, keys, message = case.split(" | ")
    for word, meaning in SHORT.items():
        keys = re.sub(word, meaning, keys)
    for name in names.split(","):
        with pytest.raises(ConfigError, match=f"^[^\n]*{re.escape(message)}[^\n]*$"):
            POLICY_REGISTRY.find(name)(compile_for(name, *policy_keys(keys)).policy)
