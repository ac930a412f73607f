"""A trained policy as an object that acts: `ding_lite.load(path)` returns an `Agent`; and its evaluation.

Who prepares what:

| step | done by |
|---|---|
| wrappers of `env.wrappers`, time limit, frame stack | the environment of `make_env` |
| one-hot vectors, floats, channels first | the environment of `make_env`; `act` too, for observations without them |
| type and device of observations, `env.norm_obs` | `act` |
| the recurrent state | `act`, until `reset` |
| mapping -1..1 to the bounds of a Box, clipping, rounding, integers that do not start at 0 | `act` |

The user's own environment has to do the first row itself. Shapes: N observations in a batch.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from numbers import Integral
from typing import Any

import gymnasium
import numpy as np
import torch

from ding_lite.config import read_saved_run
from ding_lite.envs.actions import ActionUnits
from ding_lite.envs.episode_monitor import longest_episode
from ding_lite.envs.keys import ENV_DEFAULTS, ENV_KEYS
from ding_lite.envs.wrappers import TRUE_REWARD
from ding_lite.policy import Policy
from ding_lite.results.run import find_checkpoint, find_exp_dir
from ding_lite.run.keeper import load_model, trained_env_steps
from ding_lite.run.reporter import describe_evaluation, describe_numbers
from ding_lite.run.setup import RunSetup, policy_process, prepare_run
from ding_lite.trained.acting import AgentError, Observations, check_target, export_policy
from ding_lite.trained.rendering import build_rendered
from ding_lite.utils.checkpoint.file import load_checkpoint
from ding_lite.utils.directory_lock import CONFIG
from ding_lite.utils.logger import Progress
from ding_lite.utils.ranks.collectives import get_world_size
from ding_lite.utils.registry import ConfigError
from ding_lite.utils.seed import random_state, set_random_state
from ding_lite.utils.tree import GLOBAL, tree_leaves, tree_map

DEVICES = ("cpu", "cuda")


def load(path: str, device: str | None = None) -> Agent:
    """Load a trained policy as an object that acts in environments.

    The run's config is not run, but the modules of its `import_names` are imported, so load only runs that you trust.
    The checkpoint knows the environment's spaces: no environment is built, and its modules may be missing until
    `make_env` or `evaluate` needs them.

    Args:
        path: an experiment's directory, for its best checkpoint, or a checkpoint in its ckpt folder.
        device: 'cpu' or 'cuda'; None: a GPU if the config says so and there is one.

    Raises:
        ConfigError: there is no such checkpoint, its config has a mistake, or several processes run.
        CheckpointError: the checkpoint is damaged, or belongs to another policy.
    """
    if get_world_size() > 1:
        raise ConfigError("An agent acts in one process: load it without a launcher.")
    if device is not None and device not in DEVICES:
        raise ConfigError(f"device: expected one of {DEVICES} or None, got {device!r}.")
    if device == "cuda" and not torch.cuda.is_available():
        raise ConfigError("device='cuda': torch finds no GPU here. Leave it out, or set it to 'cpu'.")
    checkpoint = find_checkpoint(path)
    pair = find_pair(checkpoint, "put it there, beside the run's total_config.py")
    overrides = ["env.replay_path=None", *([f"policy.cuda={device == 'cuda'}"] if device else [])]
    state = load_checkpoint(checkpoint)
    spec_state = state.get("env_spec", {})  # an older checkpoint has none
    try:
        return Agent(prepare_run(pair, overrides=overrides, spec_state=spec_state), state, checkpoint)
    except ConfigError as error:
        if not spec_state:
            raise
        main, create = pair  # without what needs the modules of the environment: type, own keys, and wrappers
        env = {key: value for key, value in main.get("env", {}).items() if key in ENV_KEYS and key != "wrappers"}
        pair = {**main, "env": env}, {**create, "env": {"type": ENV_DEFAULTS["type"]}}
        setup = prepare_run(pair, overrides=overrides, spec_state=spec_state)
        return Agent(setup, state, checkpoint, missing=error)


class Agent:
    """A trained policy, with what its environment needs.

    An agent leaves all random generators unchanged, except that `act` draws from torch's when it explores.

    Attributes:
        config: the run's compiled config; without the environment's own keys if its class is not known.
        policy: the policy, built for 'collect' and 'eval'. Its best actions are never random, whatever
            `policy.eval.eps` says.
        spec: the spaces of the environment, as the policy sees them.
    """

    def __init__(self, setup: RunSetup, state: dict[str, Any], name: str, missing: ConfigError | None = None) -> None:
        self._missing, self.config = missing, setup.cfg
        self._setup, self._name, self._iteration = setup, name, state.get("learner", {}).get("train_iter", 0)
        with _undisturbed(), policy_process(_greedy(setup), "policy", fields=("collect", "eval")) as self.policy:
            load_model(self.policy, state, name)
        self.spec = spec = setup.spec
        self._observations = Observations(
            spec.observation_space,
            spec.env_observation_space,
            setup.cfg.env.image_layout,
            spec.env_action_space,
            [*getattr(self.policy.model, "hidden_obs", ()), *[GLOBAL] * self.policy.multi_agent],
        )
        assert spec.env_action_space is not None
        self._units = ActionUnits(spec.env_action_space, setup.cfg.env.act_scale)
        self._explore = self.policy.begin_collect(trained_env_steps(state))
        self._rows = 0  # observations in a batch of the running episodes; 0: none have begun
        self._greedily = True  # how the running episodes are played
        self._remembers = False  # whether the policy has a recurrent state, known after its first action
        self.reset()

    def act(self, obs: Any, deterministic: bool = True) -> Any:
        """Choose an action for one observation, or actions for a batch of them.

        Args:
            obs: an observation as the environment of `make_env` returns it, or a batch `[N, ...]`: an array, a tensor
                on any device, a list, or a dict of these. Observations that the environment would only convert, such as
                images `[H, W, C]`, are taken too, unless it stacks frames. Several agents need no `global_state`, and
                an actor no parts that only its critic or its teacher saw.
            deterministic: choose the best action. False: explore as the policy did when its checkpoint was written, by
                sampling, noise, or epsilon at that env step.

        Returns:
            An action that the environment takes as it is: a number for `Discrete`, an array inside the bounds of a
            `Box`, a dict of these for hybrid actions. For a batch, arrays with the leading dimension N.

        Raises:
            AgentError: the observation is not one of the environment's; or a recurrent policy gets another number of
                observations, or another `deterministic`, before `reset`.
        """
        batch, number = self._observations.read(obs)
        rows = number or 1
        if rows != self._rows or deterministic != self._greedily:
            if self._remembers and self._rows:
                count = f"{self._rows} observations, got {rows}"
                same = count if rows != self._rows else "the same value of deterministic"
                raise AgentError(f"The policy is recurrent: expected {same}; call reset() before new episodes.")
            self._rows, self._greedily = rows, deterministic
            if not deterministic:
                self.policy.reset()  # correlated noise has a row for each environment
        output = self.policy.act(batch, not deterministic, **({} if deterministic else self._explore))
        self._remembers = self._remembers or bool(list(tree_leaves(output.get("prev_state", {}))))
        action = self._units.to_env(tree_map(lambda leaf: leaf.cpu().numpy(), output["action"]))
        return action if number else tree_map(lambda leaf_N: leaf_N[0], action)

    def reset(self, mask: Any = None) -> None:
        """Forget the running episodes. A recurrent policy needs this call before each new episode.

        Args:
            mask: bool `[N]`, true for the rows of a batch whose episodes have ended; None: all of them, and the next
                batch may have another size.

        Raises:
            AgentError: the mask's length differs from the batch's.
        """
        index = None
        if mask is None:
            self._rows = 0
        else:
            mask_N = np.asarray(mask, bool)
            if mask_N.shape != (self._rows,):
                raise AgentError(f"reset: expected a mask of shape [{self._rows}], got {list(mask_N.shape)}.")
            index = np.flatnonzero(mask_N)
        self.policy.reset(index, explore=False)
        self.policy.reset(index)

    def evaluate(self, episodes: int | None = None, seed: int | None = None) -> dict[str, Any]:
        """Play whole episodes as the run's evaluator does, and return what `evaluate_checkpoint` returns.

        The running episodes of `act` are not touched. The result is the same each time, and equals that of
        `evaluate_checkpoint` with the same arguments, whose defaults are the config's.

        Raises:
            ConfigError: the number of episodes is not a whole number of at least 1, or the seed not one of at least 0;
                or the environment cannot be built.
        """
        self._check_env_is_known()
        if seed is not None and (not isinstance(seed, Integral) or seed < 0):
            raise ConfigError(f"seed: expected a whole number of at least 0, got {seed!r}.")
        cfg = copy.deepcopy(self.config)
        if episodes is not None:
            cfg.env.update(episode_counts(episodes))
        cfg.seed = cfg.seed if seed is None else seed
        with _undisturbed():
            return play_evaluation(replace(self._setup, cfg=cfg), self._state_dict(), self._name)[0]

    def _state_dict(self) -> dict[str, Any]:
        """Return the policy's current state, in the form of a checkpoint that `load_model` reads."""
        state = {"model": self.policy.model.state_dict(), "normalizer": self.policy.normalizer.state_dict()}
        return {"policy": state, "learner": {"train_iter": self._iteration}}

    def make_env(self, render_mode: str | None = None) -> gymnasium.Env:
        """Build a single environment, wrapped like the evaluator's, also if those are stepped by one engine.

        `render_mode` is gymnasium's, such as 'human' or 'rgb_array'; None: nothing is rendered.

        Raises:
            ConfigError: the environment cannot be built, or has no such render mode.
        """
        self._check_env_is_known()
        return build_rendered(self.config.env, self._setup.builders[1], render_mode)

    def _check_env_is_known(self) -> None:
        if self._missing is not None:
            raise ConfigError(f"The environment of '{self._name}' cannot be built: {self._missing}") from self._missing

    def export(self, path: str) -> None:
        """Write a module that maps observations to actions to a '.pt2' file (torch.export) or '.onnx' (extra `onnx`).

        Raises:
            AgentError: the policy is recurrent or cannot be exported, or the module's actions differ.
            ConfigError: the ending is unknown, the directory does not exist, or the extra is missing.
        """
        check_target(path)
        setup = _greedy(self._setup)
        setup.cfg.policy.cuda = False
        with _undisturbed(), policy_process(setup, "policy", fields=("eval",)) as policy:  # the running episodes go on
            load_model(policy, self._state_dict(), self._name)
            export_policy(policy, setup.spec.observation_space, self._units, path)


def _greedy(setup: RunSetup) -> RunSetup:
    """Return a setup whose evaluations do not act at random."""
    cfg = copy.deepcopy(setup.cfg)
    if "eps" in cfg.policy.eval:
        cfg.policy.eval.eps = 0.0
    if "deterministic_eval" in cfg.policy:
        cfg.policy.deterministic_eval = True
    return replace(setup, cfg=cfg)


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Return a context manager that finally restores the random generators."""
    state = random_state()
    try:
        yield
    finally:
        set_random_state(state)


def play_episodes(
    agent: Agent, env: gymnasium.Env, seed: int | None = None, deterministic: bool = True
) -> Iterator[tuple[float, int]]:
    """Play one episode after another, endlessly; see `longest_episode` for those that do not end.

    `env` is of the agent's `make_env`, possibly wrapped further; `seed` is given before the first episode.

    Yields:
        Each episode's return (the sum of unclipped rewards) and its length in env steps.
    """
    longest = longest_episode(env.metadata)
    while True:
        obs, _ = env.reset(seed=seed)
        seed = None
        agent.reset()
        total, length, ended = 0.0, 0, False
        while not ended:
            obs, reward, terminated, truncated, info = env.step(agent.act(obs, deterministic))
            gained = float(info.get(TRUE_REWARD, reward))
            agent.policy.see_reward(np.array([gained]), explore=not deterministic)
            total += gained
            length += 1
            ended = terminated or truncated or length >= longest
        yield total, length


def find_pair(checkpoint: str, advice: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the config pair of the run that a checkpoint belongs to, and let its modules be found."""
    path = os.path.join(find_exp_dir(checkpoint), CONFIG)
    if not os.path.isfile(path):
        raise ConfigError(f"'{checkpoint}' is not in the ckpt folder of an experiment: {advice}.")
    return read_saved_run(path).importable_pair()


def evaluate_checkpoint(
    input_cfg: str | tuple[dict[str, Any], dict[str, Any]],
    path: str,
    seed: int | None = None,
    n_episode: int | None = None,
    overrides: Sequence[str] = (),
) -> dict[str, Any]:
    """Play whole episodes with a checkpoint's policy and print their mean return.

    Args:
        input_cfg: the config with which the policy was trained, such as the `total_config.py` of its experiment.
        path: path of the checkpoint.
        seed: seed of the environments, used instead of the config's.
        n_episode: number of episodes, instead of `env.n_evaluator_episode`.
        overrides: `dotted.key=value` strings, which take precedence over the config.

    Returns:
        `return_mean`, `return_std`, `return_min`, `return_max`, `length_mean` (in env steps), and `returns`, the return
        of each episode; `info/KEY` for each key of `env.info_keys` that the episodes reported.

    Raises:
        ConfigError: the config has a mistake, or there are several processes.
        CheckpointError: the checkpoint is missing, damaged, or belongs to another policy.
    """
    if n_episode is not None:
        overrides = [*overrides, *(f"env.{key}={number}" for key, number in episode_counts(n_episode).items())]
    if get_world_size() > 1:
        raise ConfigError("A checkpoint is evaluated by one process: run this without a launcher.")
    setup = prepare_run(input_cfg, seed, overrides=overrides)
    info, policy = play_evaluation(setup, load_checkpoint(path), path)
    numbers = describe_numbers({name: value for name, value in info.items() if name.startswith("info/")})
    print(
        f"return {info['return_mean']:.2f} +- {info['return_std']:.2f} (min {info['return_min']:.2f}, max "
        f"{info['return_max']:.2f}, mean length {info['length_mean']:.0f}) over {len(info['returns'])} episodes"
        f"{numbers}{describe_evaluation(policy)}"
    )
    return info


def play_evaluation(setup: RunSetup, state: dict[str, Any], name: str) -> tuple[dict[str, Any], Policy]:
    """Evaluate a checkpoint's policy as `setup` says; return what `evaluate_checkpoint` returns, and the policy."""
    with ExitStack() as stack:
        policy = stack.enter_context(policy_process(setup, "policy", fields=("eval",)))
        load_model(policy, state, name)
        progress = stack.enter_context(Progress(None, True))
        number = setup.cfg.env.n_evaluator_episode
        evaluator = setup.create_evaluator(
            policy,
            lambda: False,
            lambda done, steps, still: progress.note(
                f"evaluating: {done} of {number} episodes, step {steps:,}" + ", nothing changes" * still
            ),
            stack,
            decides=False,
        )
        return evaluator.eval(state.get("learner", {}).get("train_iter", 0))[1], policy


def episode_counts(n_episode: int) -> dict[str, int]:
    """Return the keys of `env` for an evaluation of `n_episode` episodes, which at most 8 environments share evenly."""
    if not isinstance(n_episode, Integral) or n_episode < 1:
        raise ConfigError(f"Expected at least one episode to evaluate, got {n_episode!r}.")
    num_envs = next(number for number in range(8, 0, -1) if n_episode % number == 0)
    return {"n_evaluator_episode": n_episode, "evaluator_env_num": num_envs}
