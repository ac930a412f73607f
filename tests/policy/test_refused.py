"""Values that a policy cannot use are refused in one line when the config compiles or the policy is built."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ding_lite.config.schema import TOP_KEYS, class_options
from ding_lite.envs.keys import ENV_KEYS
from ding_lite.utils.key import declared_keys
from ding_lite.utils.registry import POLICY_REGISTRY, ConfigError
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


# Each line: policies, keys of `policy.` separated by spaces, and a part of the error.
CASES = """
dqn,ppo,discrete_sac | multi_agent=True | learns for several agents: expected Dict observations with agent_state
sac | multi_agent=True | policy.multi_agent: expected False (this policy has a single agent), got bool True
mappo | multi_agent=False | policy.multi_agent must be True, got False
dqn | multi_agent=True other.eps.spread=7.0 | but with policy.multi_agent=True each agent explores for itself: leave one
dqn,rainbow | priority=False priority_IS_weight=True | set policy.priority=True too
mdqn,sql | double=True | double
sqn | learn.target_entropy=1.2 | target_entropy=1.2 cannot be reached: the entropy of 3
c51 | model.v_min=5.0 model.v_max=5.0 | policy.model.v_min=5.0 must be smaller than policy.model.v_max
c51,rainbow | model.v_min=20.0 | policy.model.v_min=20.0 must be smaller than policy.model.v_max=10.0
c51,d4pg | model.n_atom=1 | policy.model.n_atom: expected at least 2, got 1
rainbow | model.noise=False | policy.model.noise contradicts policy.noisy_net
qrdqn,iqn,fqf | model.num_quantiles=0 | policy.model.num_quantiles: expected at least 1, got 0
madqn,r2d2 | noisy_net=True | policy.noisy_net
madqn,r2d2 | double=False | policy.double
coma,madqn,r2d2 | model.lstm_type=rnn | lstm_type: expected
pdqn,d4pg | model.twin_critic=True | Unknown key 'policy.model.twin_critic'
pdqn | model.multi_pass=True | needs an action_mask
discrete_cql | model.noise=True | leave it out
discrete_cql | learn.target_update_freq=3 learn.target_theta=0.1 | target_theta, not both
td3_bc,ddpg | learn.noise_range.min=1.0 | expected min <= max, got 1.0 and 0.5
iql,acer | learn.learning_rate=0.1 | Unknown key 'policy.learn.learning_rate'
td3 | action_space=hybrid | policy 'td3' expects Box actions, got 'hybrid': use
d4pg | model.v_min=10.0 | v_min=10.0 must be smaller than policy.model.v_max=10.0
bcq | model.phi=-0.1 | policy.model.phi: expected at least 0
bcq | model.actor_head_hidden_size=16 | policy.model.actor_head_hidden_size: expected list[int]
dt | model.h_dim=10 model.n_heads=4 | policy.model.h_dim=10: expected a multiple of n_heads=4
dt | rtg_scale=0.0 | policy.rtg_scale: expected a number above 0
edac | model.ensemble_num=1 | policy.model.ensemble_num: expected at least 2, got 1
edac | model.twin_critic=True | Unknown key 'policy.model.twin_critic'
cql | learn.with_lagrange=True | needs a lagrange_thresh above 0, got -1.0
bc | continuous=True | policy.continuous=True, but the environment's actions are discrete
bc | model.action_space=hybrid | policy 'bc' expects Discrete, MultiDiscrete or Box actions, got 'hybrid': no
bc | model.bound_type=clip | policy.model.bound_type: expected 'tanh', None, got str 'clip'
bc | offline=False | policy.offline: expected True for policy 'bc', got bool False: leave it out
a2c,coma | collect.n_sample=None | policy.collect.n_sample
a2c | learn.value_norm=True | Unknown key 'policy.learn.value_norm'
a2c,coma,pg,ppo,ppo_pg | on_policy=False | policy.on_policy: expected True for policy '
a2c,impala,ppo_offpolicy | model.lstm_type=lstm | lstm_type=lstm is not possible with policy '
acer,impala | learn.batch_size=100000 | fewer than policy.learn.batch_size=100000: nothing would be learned
impala | on_policy=True | policy.on_policy: expected False for policy 'impala'
pg,ppo_pg | collect.n_sample=64 | Unknown key 'policy.collect.n_sample'. Known in 'policy.collect': actor_timeout
coma | model.mixer=True | Unknown key 'policy.model.mixer'
ppo | learn.target_kl=0.1 | set both
ppo | learn.kl_early_stop=True | set both
ppo | learn.kl_adaptive=True learn.target_kl=0.1 | set policy.learn.kl_beta above 0
ppo | learn.lr_scheduler={'epoch_nun':3,'min_lr_lambda':0.1} | policy.learn.lr_scheduler must be dict(epoch
ppo | learn.lr_scheduler={'epoch_num':'three','min_lr_lambda':0.1} | policy.learn.lr_scheduler must be dict
ppo | learn.clip_scheduler={'epoch_num':3} | policy.learn.clip_scheduler must be dict(epoch_num=collects, min
ppo | learn.clip_scheduler={'epoch_num':0,'min_clip_lambda':0.1} | policy.learn.clip_scheduler must be dict
coma,ppo | collect.n_episode=8 | Unknown key 'policy.collect.n_episode'
ppo | model.lstm_type=rnn | lstm_type: expected 'normal', 'pytorch', 'lstm', 'gru' or None, got str 'rnn'
ppo | learn.pretrained_model_path=x | has no effect without a weight: set policy.learn.kl_beta above 0
ppo | learn.pretrained_model_path=x learn.kl_beta=0.5 learn.kl_adaptive=True learn.target_kl=0.1 | contradicts kl_ad
ppo | learn.pretrained_model_path=x learn.kl_beta=0.5 model.lstm_type=gru | is not possible with policy.model.lstm_type
ppo | model.memory=gtrx | memory: expected 'gtrxl', or a dict with that type
impala | model.memory=gtrxl | memory=gtrxl is not possible with policy 'impala'
ppo_stdim | model.share_encoder=False | contrasts what the `encoder` of its model returns, but VAC has no such part
ppo_stdim | model.lstm_type=lstm | lstm_type=lstm is not possible with policy 'ppo_stdim'
dqn_stdim,ppo_stdim | aux_model.heads=[1] | policy.aux_model.heads: expected two numbers such as [1, 1], got [1].
dqn_stdim,ppo_stdim | multi_agent=True | policy.multi_agent: expected False (this policy has a single agent)
ppo_pg | learn.value_weight=0.5 | Unknown key 'policy.learn.value_weight'
ppg | model.lstm_type=lstm | Unknown key 'policy.model.lstm_type'
ppg | model.share_encoder=True | policy.model.share_encoder: expected False (actor and critics have separate encoders)
ppo_offpolicy | learn.kl_adaptive=True | Unknown key 'policy.learn.kl_adaptive'
ppo_offpolicy | learn.kl_early_stop=True | Unknown key 'policy.learn.kl_early_stop'
ppo_offpolicy | learn.target_kl=1.0 | Unknown key 'policy.learn.target_kl'
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


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_a_value_that_cannot_be_is_one_line(case: str) -> None:
    names, keys, message = case.split(" | ")
    for word, meaning in SHORT.items():
        keys = re.sub(word, meaning, keys)
    for name in names.split(","):
        with pytest.raises(ConfigError, match=f"^[^\n]*{re.escape(message)}[^\n]*$"):
            POLICY_REGISTRY.find(name)(compile_for(name, *(f"policy.{key}" for key in keys.split())).policy)
