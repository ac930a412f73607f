"""The table of algorithms: a row for each policy of the package, which the tests that hold for every policy read.

A row has what neither the class nor the registry says. A new algorithm needs a row, and no other list of the tests
needs its name. Keys of configs are written as on the command line, without `policy.`, and separated by spaces; those of
`env` are whole.
"""

from __future__ import annotations

from dataclasses import dataclass

RATE = "{'type':'exponential','start':0.01,'end':0.001,'over':3,'by':'iteration'}"
PRIORITY = "priority=True priority_IS_weight=True"
RATES = "learn.learning_rate_q=3e-3 learn.learning_rate_policy=3e-3"
CRITIC_OBS = "env.hidden=True model.critic_obs=['hidden']"
SEQUENCES = "unroll_len=4 burnin_step=2 nstep=3"
SIMBA = "model.encoder=simba model.encoder_hidden_size_list=None " + " ".join(
    f"model.{name}_head_hidden_size=8" for name in ("actor", "critic")
)


@dataclass(frozen=True)
class Algorithm:
    """What tests set, or expect, of one policy.

    Attributes:
        short: keys with which its sequences are short enough for the few rows of a test.
        cases: keys of each case in which it learns: alone and on several ranks, resumed, compiled.
        agents: the same with `multi_agent=True`, of a policy that also has a single agent.
        quick: of its cases with other kinds of actions than the first, those that are not left to `make test-all`.
        masked: whether it also learns with masks on several ranks; one policy of each kind of model does.
        comparable: keys with which a masked task is learned exactly as one without the forbidden actions: noisy layers
            draw a number for each output, weight decay also changes what forbidden actions have. Or its loss does more.
            None: it is not, because its loss does not depend on the observations and actions alone.
        also_masked: keys of more cases in which that is so.
        out: keys of each case in which an agent leaves the game.
        state_of_each: whether it learns from a global state that differs from agent to agent, too.
        targets_every: iterations from one update of the target networks to the next, without `target_update_freq`.
        followed: keys that are read while the policy is built, and that follow a schedule all the same.
        scheduled: keys, each with its first and last number and with other keys, that must follow a schedule.
        refused: keys, and behind a bar a part of the error; see tests/policy/test_refused.py for shared ones.
        small: keys of the small actor-critic that tests/policy/continuous compares; None: it has other networks.
        solves: tasks of tests/policy/test_toys.py that it learns within seconds.
        solver: keys with which it does.
        toy: keys with which it learns from data of the games in tests/policy/test_continuous_toys.py; empty: none.
        free: more keys for the game whose data have all actions.
        within: more keys for the game whose best actions nobody has tried; None: not that one.
        variant_of: the policy whose losses it has; the tests over all policies then leave it to `make test-all`.
        tests: the test file of its module and of its model's, if it has another name.
    """

    short: str = ""
    cases: tuple[str, ...] = ("",)
    agents: tuple[str, ...] = ("",)
    quick: str = "0"
    masked: bool = False
    comparable: str | None = ""
    also_masked: tuple[str, ...] = ()
    out: tuple[str, ...] = ("",)
    state_of_each: bool = False
    targets_every: int = 1
    followed: str = ""
    scheduled: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    small: str | None = None
    solves: tuple[str, ...] = ()
    solver: str = ""
    toy: str = ""
    free: str = ""
    within: str | None = None
    variant_of: str = ""
    tests: str = ""


def row(name: str) -> Algorithm:
    """Return the row of a policy; that of another package's has the defaults."""
    return ALGORITHMS.get(name, Algorithm())


def policy_keys(words: str) -> list[str]:
    """Return keys of a policy as a command line has them."""
    return [word if word.startswith("env.") else f"policy.{word}" for word in words.split()]


ALGORITHMS = {
    "dqn": Algorithm(
        solves=("corridor", "masked"),
        solver="model.encoder_hidden_size_list=[32,32] nstep=2 collect.n_sample=16 learn.update_per_collect=4 "
        "learn.batch_size=32 learn.learning_rate=0.003 learn.target_update_freq=20 other.eps.decay=500 "
        "other.replay_buffer.replay_buffer_size=2000",
        cases=(
            "",
            "noisy_net=True",
            f"learn.learning_rate={RATE} learn.optimizer=rmsprop learn.momentum=0.9",
            f"{PRIORITY} learn.target_theta=0.1",
            "bp_update_sync=False learn.grad_clip_type=clip_norm learn.grad_clip_value=0.05",
            "learn.grad_clip_type=clip_value learn.grad_clip_value=0.02",
            f"learn.optimizer=sgd learn.momentum={RATE} learn.target_theta={RATE}",
        ),
        agents=(PRIORITY,),
        masked=True,
    ),
    "c51": Algorithm(
        cases=(f"{PRIORITY} nstep=3",),
        refused=("model.v_min=5.0 model.v_max=5.0 | policy.model.v_min=5.0 must be smaller than policy.model.v_max",),
    ),
    "qrdqn": Algorithm(cases=("noisy_net=True nstep=3",), tests="policy/value/test_losses.py"),
    "iqn": Algorithm(cases=("noisy_net=True nstep=3",), tests="policy/value/test_distributional.py"),
    "fqf": Algorithm(cases=("noisy_net=True nstep=3 learn.ent_coef=0.1",)),
    "rainbow": Algorithm(
        cases=(
            "",
            "model.distributional=False model.dueling=False noisy_net=False double=False nstep=1 priority=False",
        ),
        masked=True,
        comparable="noisy_net=False",
        also_masked=("model.distributional=False",),
        refused=("model.noise=False | policy.model.noise contradicts policy.noisy_net",),
    ),
    "mdqn": Algorithm(
        cases=("", "noisy_net=True", PRIORITY),
        scheduled=("entropy_tau 0.25 0.75", "m_alpha 0.25 0.75"),
        tests="policy/value/test_losses.py",
    ),
    "dqn_stdim": Algorithm(cases=("aux_loss_weight=1.0", f"aux_model.heads=[2,3] nstep=3 {PRIORITY}")),
    "sql": Algorithm(cases=("nstep=3", PRIORITY), tests="policy/value/test_losses.py"),
    "sqn": Algorithm(
        cases=("", f"nstep=3 {PRIORITY}"),
        comparable="learn.target_entropy=0.05",  # the entropy of two actions is at most 0.69
        followed="learn.target_entropy",
        scheduled=("learn.target_entropy 0.25 0.75",),
        refused=("learn.target_entropy=1.2 | target_entropy=1.2 cannot be reached: the entropy of 3",),
    ),
    "discrete_sac": Algorithm(
        agents=("", f"model.centralized_critic=False {PRIORITY}"),
        masked=True,
        out=("", f"model.centralized_critic=False {PRIORITY}"),
    ),
    "sac_discrete": Algorithm(),
    "bdq": Algorithm(
        cases=("", "noisy_net=True learn.mean_target=False", f"nstep=3 {PRIORITY}"), masked=True, quick="0 1 2 masked"
    ),
    "r2d2": Algorithm(
        short=SEQUENCES,
        cases=(
            "",
            f"{PRIORITY} learn.value_rescale=False model.lstm_type=pytorch learn.target_theta=0.1",
            "model.memory=gtrxl model.res_link=True",
        ),
        masked=True,
    ),
    "ngu": Algorithm(
        short=SEQUENCES + " num_policies=2",
        cases=("", "num_policies=1"),
        masked=True,
        comparable=None,
        variant_of="r2d2",
    ),
    "acer": Algorithm(
        short="unroll_len=4",
        cases=("learn.c_clip_ratio=0.9 learn.trust_region_value=0.1", "learn.trust_region=False"),
        masked=True,
    ),
    "pqn": Algorithm(),
    "sac": Algorithm(
        cases=(
            "",
            f"nstep=3 {PRIORITY} learn.log_space=False",
            f"learn.auto_alpha=False learn.alpha={RATE}",
            SIMBA,
            CRITIC_OBS,
        ),
        scheduled=("learn.alpha 0.25 0.75 learn.auto_alpha=False learn.log_space=False",),
        small="learn.init_w=0.25",
    ),
    "mbsac": Algorithm(
        cases=("", f"nstep=3 {PRIORITY} learn.lambda_=0.5"),
        scheduled=("learn.alpha 0.25 0.75 learn.auto_alpha=False learn.log_space=False",),
        variant_of="sac",
    ),
    "stevesac": Algorithm(
        scheduled=("learn.alpha 0.25 0.75 learn.auto_alpha=False learn.log_space=False",),
        variant_of="sac",
    ),
    "redq": Algorithm(
        cases=("learn.actor_update_freq=2",),
        scheduled=("learn.alpha 0.25 0.75 learn.auto_alpha=False learn.actor_update_freq=1",),
        small="model.ensemble_num=3 learn.init_w=0.25",
        tests="policy/continuous/test_ensembles.py",
    ),
    "tqc": Algorithm(
        cases=(f"nstep=3 {PRIORITY}",),
        small="model.num_quantiles=5 learn.init_w=0.25",
        tests="policy/continuous/test_ensembles.py",
    ),
    "recurrent_sac": Algorithm(short=SEQUENCES, cases=("", "model.lstm_type=gru", CRITIC_OBS)),
    "td3": Algorithm(
        cases=(f"{PRIORITY} {SIMBA}",),
        targets_every=2,
        small="",
        refused=("action_space=hybrid | policy 'td3' expects Box actions, got 'hybrid': use",),
    ),
    "recurrent_td3": Algorithm(short=SEQUENCES, cases=(PRIORITY,), targets_every=2),
    "ddpg": Algorithm(small="collect.noise_type=ou"),
    "d4pg": Algorithm(
        cases=("model.v_min=-20.0 model.v_max=20.0",),
        small="",
        refused=("model.v_min=10.0 | v_min=10.0 must be smaller than policy.model.v_max=10.0",),
    ),
    "paddpg": Algorithm(
        solves=("hybrid",),
        solver="model.actor_head_hidden_size=32 model.critic_head_hidden_size=32 random_collect_size=0 "
        "learn.update_per_collect=8 learn.batch_size=64 learn.target_theta=0.05 collect.n_sample=16 "
        "other.eps.decay=2000",
        cases=("", f"nstep=3 {PRIORITY}", "model.twin_critic=True learn.noise=True learn.actor_update_freq=2"),
    ),
    "pdqn": Algorithm(
        cases=(
            f"learn.update_circle=2 nstep=3 {PRIORITY}",
            "learn.update_circle=3 model.multi_pass=True model.action_mask=[[1,0],[0,1],[0,0]]",
        ),
        refused=("model.multi_pass=True | needs an action_mask",),
    ),
    "ppo": Algorithm(
        solves=("hybrid",),
        solver="model.encoder_hidden_size_list=[32,32] learn.learning_rate=0.003 learn.entropy_weight=0.0 "
        "learn.epoch_per_collect=4 learn.batch_size=64 collect.n_sample=256",
        cases=(
            "learn.epoch_per_collect=3",
            "learn.epoch_per_collect=3 learn.kl_beta=0.5 learn.kl_adaptive=True learn.target_kl=1e-6 "
            "learn.value_clip=False recompute_adv=False",
            "learn.epoch_per_collect=3 model.lstm_type=lstm",
            f"learn.epoch_per_collect=3 learn.kl_beta={RATE} discount_factor={RATE}",
            f"{CRITIC_OBS} model.share_encoder=False learn.epoch_per_collect=3",
            f"{CRITIC_OBS} model.share_encoder=False model.lstm_type=gru",
            "learn.epoch_per_collect=3 learn.kl_learning_rate=True learn.target_kl=1e-6",
            "learn.epoch_per_collect=3 learn.kl_learning_rate=True learn.target_kl=1e-6 model.sigma_type=scalar "
            "model.init_sigma=0.8",
        ),
        agents=("model.type=vac model.lstm_type=gru learn.epoch_per_collect=3",),
        masked=True,
        comparable="learn.kl_beta=0.1",
        also_masked=("model.lstm_type=lstm", "model.share_encoder=False"),
        scheduled=("learn.kl_beta 0.0 2.0",),
        refused=(
            "learn.target_kl=0.1 | set both",
            "learn.kl_early_stop=True | set both",
            "learn.kl_learning_rate=True | set both",
            "learn.kl_learning_rate=True learn.target_kl=0.01 learn.learning_rate=0.1 | from 1e-05 to 0.01",
            "learn.kl_learning_rate=True learn.target_kl=0.01 learn.kl_adaptive=True learn.kl_beta=0.1 | set only one",
            "learn.kl_adaptive=True learn.target_kl=0.1 | set policy.learn.kl_beta above 0",
            "symmetry.mirror=tests.nowhere:mirror | expected 'module:function', such as 'my_project.robot:mirror'",
            "symmetry.mirror=tests.toys | expected 'module:function', such as 'my_project.robot:mirror'",
            "symmetry.mirror=tests.toys:Toy symmetry.augment=False | set augment=True, or loss_weight above 0",
            "symmetry.mirror=tests.toys:Toy model.lstm_type=gru | is not possible with policy.model.lstm_type",
            "learn.lr_scheduler={'epoch_nun':3,'min_lr_lambda':0.1} | policy.learn.lr_scheduler must be dict(epoch",
            "learn.lr_scheduler={'epoch_num':'three','min_lr_lambda':0.1} | policy.learn.lr_scheduler must be dict",
            "learn.clip_scheduler={'epoch_num':3} | policy.learn.clip_scheduler must be dict(epoch_num=collects, min",
            "learn.clip_scheduler={'epoch_num':0,'min_clip_lambda':0.1} | policy.learn.clip_scheduler must be dict",
            "model.lstm_type=rnn | lstm_type: expected 'normal', 'pytorch', 'lstm', 'gru' or None, got str 'rnn'",
            "learn.pretrained_model_path=x | has no effect without a weight: set policy.learn.kl_beta above 0",
            "learn.pretrained_model_path=x learn.kl_beta=0.5 learn.kl_adaptive=True learn.target_kl=0.1 | "
            "contradicts kl_adaptive",
            "learn.pretrained_model_path=x learn.kl_beta=0.5 model.lstm_type=gru | "
            "is not possible with policy.model.lstm_type",
            "model.memory=gtrx | memory: expected 'gtrxl', or a dict with that type",
            f"{CRITIC_OBS} | set policy.model.share_encoder=False",
        ),
    ),
    "ppo_offpolicy": Algorithm(
        cases=("learn.adv_norm=True",),
        quick="",
        refused=(
            "learn.kl_adaptive=True | Unknown key 'policy.learn.kl_adaptive'",
            "learn.kl_early_stop=True | Unknown key 'policy.learn.kl_early_stop'",
            "learn.kl_learning_rate=True | Unknown key 'policy.learn.kl_learning_rate'",
            "learn.target_kl=1.0 | Unknown key 'policy.learn.target_kl'",
        ),
    ),
    "ppo_pg": Algorithm(
        cases=("learn.adv_norm=True learn.epoch_per_collect=3",),
        quick="",
        refused=("learn.value_weight=0.5 | Unknown key 'policy.learn.value_weight'",),
    ),
    "ppo_stdim": Algorithm(
        cases=("aux_loss_weight=1.0 learn.epoch_per_collect=3",),
        refused=(
            "model.share_encoder=False | contrasts what the `encoder` of its model returns, but VAC has no such part",
            "model.lstm_type=lstm | lstm_type=lstm is not possible with policy 'ppo_stdim'",
        ),
    ),
    "ppg": Algorithm(
        cases=(
            # biases of 0 are where ReLU bends: rounding would decide on a unit
            "learn.aux_freq=1 learn.aux_train_epoch=2 learn.adv_norm=True learn.value_norm=True "
            "learn.ppo_param_init=False",
        ),
        refused=(
            "model.lstm_type=lstm | Unknown key 'policy.model.lstm_type'",
            "model.share_encoder=True | policy.model.share_encoder: "
            "expected False (actor and critics have separate encoders)",
        ),
    ),
    "a2c": Algorithm(
        cases=(f"learn.adv_norm=True learn.optimizer=adamw learn.value_weight={RATE}",),
        quick="",
        refused=("learn.value_norm=True | Unknown key 'policy.learn.value_norm'",),
    ),
    "pg": Algorithm(quick=""),
    "distill": Algorithm(
        cases=("", "learn.epoch_per_collect=3 model.lstm_type=gru", "env.hidden=True model.teacher_obs=['hidden']"),
        masked=True,
        comparable=None,
        refused=(
            "learn.teacher_path='' | policy.learn.teacher_path is not set: expected a run's directory",
            "learn.teacher_path=gone | policy.learn.teacher_path: 'gone' does not exist: expected a run's directory",
            "env.hidden=True model.teacher_obs=['gone'] | policy.model.teacher_obs: the observations have no part",
            "collect.actors=2 collect.teacher_share=0.5 | set policy.collect.actors=0, or leave teacher_share out",
            "action_space=hybrid | policy 'distill' expects",
        ),
    ),
    "impala": Algorithm(
        short="unroll_len=4",
        quick="",
        refused=(
            "on_policy=True | policy.on_policy: expected False for policy 'impala'",
            "model.memory=gtrxl | memory=gtrxl is not possible with policy 'impala'",
        ),
    ),
    "qmix": Algorithm(
        short=SEQUENCES,
        cases=(
            "",
            f"unroll_len=1 model.lstm_type=None model.mixer=False nstep=3 {PRIORITY} learn.double_q=True burnin_step=0",
        ),
        out=("model.lstm_type=None unroll_len=1 nstep=2",),
    ),
    "wqmix": Algorithm(
        short=SEQUENCES,
        cases=("", "unroll_len=1 model.lstm_type=None learn.wqmix_ow=False nstep=3 burnin_step=0"),
        out=(
            "model.lstm_type=None unroll_len=1 nstep=2",
            "model.lstm_type=None unroll_len=1 nstep=2 learn.wqmix_ow=False",
        ),
        tests="multi_agent/policy/test_qmix.py",
    ),
    "madqn": Algorithm(
        state_of_each=True,
        short=SEQUENCES,
        cases=("", "unroll_len=1 model.lstm_type=None model.mixer=True learn.double_q=True burnin_step=0"),
        out=("model.lstm_type=None unroll_len=1 nstep=2",),
        tests="multi_agent/policy/test_qmix.py",
    ),
    "coma": Algorithm(
        cases=("", "learn.epoch_per_collect=3 model.lstm_type=None"),
        out=("model.lstm_type=None",),
        refused=("model.mixer=True | Unknown key 'policy.model.mixer'",),
    ),
    "mappo": Algorithm(
        state_of_each=True,
        cases=(
            "",
            "model.centralized_critic=False learn.epoch_per_collect=3",
            "model.lstm_type=gru learn.epoch_per_collect=3",
        ),
        out=("", "model.centralized_critic=False", "model.lstm_type=gru"),
        refused=("multi_agent=False | policy.multi_agent must be True, got False",),
    ),
    "happo": Algorithm(
        state_of_each=True,
        cases=("learn.epoch_per_collect=2", "learn.adv_norm=False learn.value_norm=False learn.entropy_weight=0.01"),
    ),
    "bc": Algorithm(
        comparable="learn.ce_label_smooth=True",
        refused=(
            "continuous=True | policy.continuous=True, but the environment's actions are discrete",
            "model.action_space=hybrid | policy 'bc' expects Discrete, MultiDiscrete or Box actions, got 'hybrid': no",
            "model.bound_type=clip | policy.model.bound_type: expected 'tanh', None, got str 'clip'",
            "offline=False | policy.offline: expected True for policy 'bc', got bool False: leave it out",
        ),
    ),
    "dt": Algorithm(
        short="context_len=4 model.h_dim=16 model.n_heads=2 model.n_blocks=2",
        cases=("", "model.drop_p=0.0"),
        comparable="learn.weight_decay=0.0",
        refused=("model.h_dim=10 model.n_heads=4 | policy.model.h_dim=10: expected a multiple of n_heads=4",),
    ),
    "bcq": Algorithm(
        cases=("nstep=3",),
        refused=("model.actor_head_hidden_size=16 | policy.model.actor_head_hidden_size: expected list[int]",),
    ),
    "cql": Algorithm(
        cases=("", "learn.with_lagrange=True learn.lagrange_thresh=1.0 learn.with_q_entropy=True"),
        scheduled=("learn.alpha 0.25 0.75 learn.auto_alpha=False learn.with_q_entropy=True",),
        small="learn.num_actions=2 learn.with_lagrange=True learn.lagrange_thresh=5.0 learn.init_w=0.25",
        toy=f"learn.num_actions=4 learn.auto_alpha=False learn.alpha=0.01 {RATES}",
        free="learn.min_q_weight=0.5",
        within="",
        refused=("learn.with_lagrange=True | needs a lagrange_thresh above 0, got -1.0",),
    ),
    "discrete_cql": Algorithm(
        cases=("nstep=3 learn.target_theta=0.1",),
        refused=(
            "model.noise=True | leave it out",
            "learn.target_update_freq=3 learn.target_theta=0.1 | target_theta, not both",
        ),
        tests="policy/value/test_losses.py",
    ),
    "edac": Algorithm(
        cases=("", "learn.with_q_entropy=True learn.eta=0.0"),
        small="model.ensemble_num=3 learn.init_w=0.25",
        toy=f"model.critic_head_layer_num=2 learn.auto_alpha=False learn.alpha=0.01 {RATES}",
        refused=("model.twin_critic=True | Unknown key 'policy.model.twin_critic'",),
        tests="policy/continuous/test_ensembles.py",
    ),
    "iql": Algorithm(
        small="learn.init_w=0.25",
        toy=f"learn.tau=0.9 learn.beta=30.0 learn.target_theta=0.05 learn.learning_rate_value=3e-3 {RATES}",
        within="",
    ),
    "bco": Algorithm(comparable=None, variant_of="bc"),
    "dqfd": Algorithm(cases=(f"nstep=3 {PRIORITY}", "noisy_net=True")),
    "r2d3": Algorithm(short=SEQUENCES, variant_of="r2d2", cases=("learn.lambda2=1.0 learn.lambda_one_step_td=1.0",)),
    "awac": Algorithm(cases=("", PRIORITY), small=""),
    "dreamer": Algorithm(
        short="unroll_len=4 imag_horizon=3 model.dyn_deter=16 model.dyn_hidden=16 model.dyn_stoch=4 "
        "model.dyn_discrete=4 model.units=16 model.layer_num=1 learn.free_nats=0.0",
        masked=True,
        comparable=None,
        refused=("learn.update_per_step=0.0001 | is less than one learner iteration for the",),
    ),
    "iql_online": Algorithm(variant_of="iql"),
    "cql_online": Algorithm(variant_of="cql"),
    "td3_bc_online": Algorithm(variant_of="td3_bc", targets_every=2),
    "td3_bc": Algorithm(
        targets_every=2,
        small="",
        toy="learn.learning_rate_actor=3e-3 learn.learning_rate_critic=3e-3 learn.target_theta=0.05",
        free="learn.alpha=20.0",
        within="learn.alpha=0.1",
    ),
}
