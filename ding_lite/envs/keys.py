"""The keys of `env` that every environment has."""

from __future__ import annotations

from typing import Any

from ding_lite.utils.key import Key, default_values

ENV_KEYS: dict[str, Any] = dict(
    type=Key("gymnasium", "name of a registered environment; 'gymnasium' makes any gymnasium id"),
    import_names=Key([], "modules to import first, which register `type` or `env_id`"),
    env_id=Key(
        None,
        "gymnasium id, such as 'CartPole-v1' or 'module:Id-v0', or the game of a registered environment; the module "
        "is imported like those of import_names",
        type=str,
    ),
    collector_env_num=Key(8, "environments that collect, per process", low=1, high=65536),
    evaluator_env_num=Key(8, "environments that evaluate, on rank 0 only", low=1, high=65536),
    n_evaluator_episode=Key(8, "episodes of one evaluation, rounded up to a multiple of evaluator_env_num", low=1),
    stop_value=Key(None, "mean evaluation return at which training ends; None: never", type=float),
    n_confirm_episode=Key(
        0,
        "further episodes of an evaluation that reaches stop_value: the mean of all must reach it; rounded up to a "
        "multiple of evaluator_env_num",
        low=0,
        needs="stop_value",
    ),
    expected_env_step=Key(
        None,
        "env steps after which earlier runs reached stop_value: a run says after a minute when that will be; None: "
        "unknown",
        type=int,
        low=1,
        needs="stop_value",
    ),
    frame_stack=Key(
        0, "number of frames in one observation, zeros before an episode's first frame; 0: no stack", low=0, high=4096
    ),
    image_layout=Key(
        "",
        "layout of the environment's images: 'channels_last', [H, W, C]; or 'channels_first'; empty: from the shape",
        choices=("", "channels_first", "channels_last"),
    ),
    clip_rewards=Key(False, "train on the sign of the reward; recorded returns are not clipped"),
    episodic_life=Key(False, "in training, a lost life is `done` for the learner, and the game continues"),
    episodic_reward=Key(
        False, "in training, a reward other than 0, such as a point, is `done` for the learner, and the game continues"
    ),
    act_scale=Key(True, "map actions -1..1 to the bounds of a Box; False: actions are in its units. Both are clipped"),
    max_episode_steps=Key(
        None,
        "env steps after which an episode is truncated; 0: never, but evaluations cut it after 30000; None: the "
        "environment's own limit",
        type=int,
        low=0,
    ),
    collector_max_episode_steps=Key(
        None,
        "the same for training episodes, instead of max_episode_steps; a list, repeated over a rank's environments, "
        "gives each its own; None: max_episode_steps",
        type=(int, list[int]),
        low=0,
    ),
    info_keys=Key(
        [], "keys of `info` with a number at an episode's last step, such as 'is_success'; their means are recorded"
    ),
    reset_options=Key({}, "options of every reset, in training and evaluation, as gymnasium's `reset(options=...)`"),
    dynamic_seed=Key(
        True, "each training episode of an environment has a seed of its own; False: all have the environment's"
    ),
    kwargs=Key({}, "further arguments of gymnasium.make, or of envpool.make"),
    replay_path=Key(
        None, "directory for videos of the evaluator's first environment, needs the extra `video`; None: none", type=str
    ),
    wrappers=Key(
        [],
        "wrappers of each environment, the first innermost: names in gymnasium.wrappers or 'module:Class' of your own, "
        "or dict(name=..., argument=...)",
        type=list,
    ),
    norm_obs=dict(
        use_norm=Key(
            False, "normalise observations by their running mean and standard deviation; short: `norm_obs=True`"
        ),
        offline_stats=dict(
            use_offline_stats=Key(
                False, "use the statistics of the data set; always so in offline learning", needs="use_norm"
            )
        ),
    ),
    norm_reward=dict(
        use_norm=Key(
            False, "divide training rewards by the discounted return's standard deviation; short: `norm_reward=True`"
        ),
        reward_discount=Key(
            None, "discount of this return; None: policy.discount_factor", type=float, low=0, high=1, needs="use_norm"
        ),
        clip=Key(
            10.0,
            "largest absolute value of a normalised reward; None: no limit",
            type=(float, None),
            above=0,
            needs="use_norm",
        ),
    ),
    manager=dict(
        type=Key(
            "base",
            "'base': in this process; 'subprocess': a process for each; 'native': the game's own engine; 'env_pool': "
            "envpool's, the extra `envpool`; 'batched': a simulator that steps all as one tensor",
        ),
        num_threads=Key(
            0,
            "threads of an engine; 0: the cores divided by the processes on this machine",
            low=0,
            high=4096,
            needs="type=native|env_pool",
        ),
        step_timeout=Key(
            60.0, "seconds after which a silent subprocess is replaced", low=0.001, high=10**6, needs="type=subprocess"
        ),
        max_retry=Key(
            3,
            "how many times in a row a subprocess environment may fail before the run ends",
            low=0,
            needs="type=subprocess",
        ),
        random_elapsed_steps=Key(
            False,
            "the first training episodes begin at random steps before their time limit, so that not all of them reach "
            "it in the same step",
            needs="type=batched",
        ),
    ),
)
ENV_DEFAULTS: dict[str, Any] = default_values(ENV_KEYS)  # plain values
