"""Learning steps on one fixed set of samples, by one process with all of them or by several with a part each.

Three steps are a phase. Two processes take the first one, three the second, and one the third, each from the state that
those before it left.
"""

from __future__ import annotations

import atexit
import copy
import functools
import gc
import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import gymnasium
import numpy as np
import torch
from easydict import EasyDict
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete
from torch import Tensor, nn

from ding_lite.config import compile_config, set_shapes
from ding_lite.entry import serial_pipeline_onpolicy
from ding_lite.envs import check_env, create_vector_env
from ding_lite.offline.dataset import SequenceDataset
from ding_lite.policy import Policy, base
from ding_lite.torch_utils.normalizer import active_agents
from ding_lite.utils import DDPContext, get_rank, get_world_size
from ding_lite.utils.registry import BUFFER_REGISTRY, ENV_REGISTRY, POLICY_REGISTRY
from ding_lite.utils.tree import tree_map
from ding_lite.worker import EpisodeCollector, SampleCollector
from tests.toys import Toy

NUM_ENVS, NUM_STEPS, STEPS = 6, 12, 3
MARK = 9.0  # the first feature of what environment 0 sees
SPACES = {
    "discrete": Discrete(3),
    "continuous": Box(-1, 1, (2,)),
    "hybrid": Dict(action_type=Discrete(3), action_args=Box(-1, 1, (2,))),
    "multi_discrete": MultiDiscrete([3, 2]),
    "agents": MultiDiscrete([3, 3]),
    "continuous_agents": Box(-1, 1, (2, 2)),
}
OF_AGENTS = ("agents", "continuous_agents")
# Which environments each rank has: of equal numbers where ranks share a data set, else of different ones.
EVEN = {1: [range(6)], 2: [range(3), range(3, 6)], 3: [range(2), range(2, 4), range(4, 6)]}
UNEVEN = {1: [range(6)], 2: [range(4), range(4, 6)], 3: [range(3), range(3, 5), range(5, 6)]}
WAYS = {1: "flat", 2: "ddp", 3: "flat"}  # to average gradients, by the number of ranks
PHASES = {2: 0, 3: 1, 1: 2}  # by the number of ranks
NETWORKS = (
    "value",
    "critic",
    "actor",
    "actors",
    "dis",
    "cont",
    "policy",
    "idm",
)  # parts of models that have an optimizer each


def kinds_of(policy_cls: type[Policy]) -> list[str]:
    """Return the kinds of actions that a policy takes; `OF_AGENTS` are those of several agents."""
    kinds = [kind for kind, space in SPACES.items() if isinstance(space, policy_cls.action_spaces)]
    if policy_cls.multi_agent:
        return [kind for kind in kinds if kind in OF_AGENTS]
    rows = ["agents"] * ("multi_agent" in policy_cls.default_config())
    return [kind for kind in kinds if kind not in OF_AGENTS] + rows


def learns_from(cfg: EasyDict) -> str:
    return POLICY_REGISTRY.find(cfg.policy.type).learns_from


@ENV_REGISTRY.register("parity")
class RandomGame(Toy):
    """Random observations and rewards; episodes of 2 to 8 steps, terminated or truncated.

    With `masked`, some choices are forbidden, at the end all of them, and one that is forbidden cannot be played.
    Several agents always have such a mask, unless their actions are continuous. With `hidden`, there is a second part
    of the observations.
    """

    config: ClassVar = dict(kind="discrete", masked=False, hidden=False)
    observation_space: gymnasium.Space[Any] = Box(-np.inf, np.inf, (4,))

    def __init__(self, cfg_env: EasyDict) -> None:
        self.action_space = SPACES[cfg_env.kind]
        self._options = [3] if cfg_env.kind == "discrete" else [3, 2]
        self._agents, self._masked = cfg_env.kind in OF_AGENTS, cfg_env.masked or cfg_env.kind == "agents"
        if self._agents:
            self._options, features = [3, 3], Box(-np.inf, np.inf, (2, 4))
            parts: dict[str, Any] = dict(agent_state=features, global_state=RandomGame.observation_space)
            parts |= {"action_mask": MultiBinary((2, 3))} if self._masked else {}
            self.observation_space = Dict(parts)
        elif cfg_env.masked:
            mask = MultiBinary(sum(self._options))
            self.observation_space = Dict(observation=RandomGame.observation_space, action_mask=mask)
        elif cfg_env.hidden:
            self.observation_space = Dict(observation=RandomGame.observation_space, hidden=Box(-np.inf, np.inf, (2,)))

    def observe(self) -> Any:
        seen = self.np_random.normal(size=4).astype(np.float32)
        if self.observation_space is RandomGame.observation_space:
            return seen
        if "hidden" in self.observation_space.spaces:  # type: ignore[attr-defined]  # a Dict
            return {"observation": seen, "hidden": self.np_random.normal(size=2).astype(np.float32)}
        self._masks = [self.np_random.permutation(np.arange(n) < self.np_random.integers(n) + 1) for n in self._options]
        mask = np.concatenate(self._masks) * (self._left > 0)
        if self._agents:
            states = self.np_random.normal(size=(2, 4)).astype(np.float32)
            obs = {"agent_state": states, "global_state": seen, "action_mask": mask.reshape(2, 3).astype(np.int8)}
            return obs if self._masked else {key: obs[key] for key in ("agent_state", "global_state")}
        return {"observation": seen, "action_mask": mask.astype(np.int8)}

    def begin(self) -> None:
        self._left = int(self.np_random.integers(2, 9))
        self._terminates = bool(self.np_random.random() < 0.5)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        if self._masked:
            assert all(mask[chosen] for mask, chosen in zip(self._masks, np.ravel(action), strict=True))
        self._left -= 1
        over = self._left == 0
        return self.observe(), float(self.np_random.normal()) * 3, over and self._terminates, over, {}


class PartlyTouched(nn.Module):
    """A model with parameters that only marked observations use, so that not every rank has a gradient for them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.rare = model, nn.Linear(4, 4)

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name) if name in ("model", "rare") else getattr(self.model, name)

    def forward(self, obs: Any, **kwargs: Any) -> dict[str, Any]:
        return self.model(self._touch(obs), **kwargs)

    def _touch(self, obs: Any) -> Any:
        if isinstance(obs, dict):  # sequences, for a network with a memory, or observations of several parts
            key = features_key(obs)
            return {**obs, key: self._touch(obs[key])}
        marked = obs[..., :1] == MARK
        if obs.is_cuda or marked.any():  # a loss that waits for a GPU could not be captured
            obs = torch.where(marked, torch.cat([self.rare(obs[..., :4]), obs[..., 4:]], -1), obs)
        return obs


def features_key(obs: dict[str, Any]) -> str:
    """Return the key of the features that a network sees: of sequences, of agents, or of observations with a mask."""
    return next(key for key in ("obs", "agent_state", "observation") if key in obs)


def seen(obs: Any) -> Tensor:
    """Return the features of observations with a mask or without."""
    return obs[features_key(obs)] if isinstance(obs, dict) else obs


def observations(name: str, num: int, dtype: Any = np.float64, masked: bool = True) -> Any:
    """Return random observations for a policy to act on, those of several agents with a mask if `masked`."""
    rng = np.random.default_rng(0)
    states = rng.normal(size=(num, 4)).astype(dtype)
    if not POLICY_REGISTRY.find(name).multi_agent:
        return states
    mask = {"action_mask": np.ones((num, 2, 3), np.int8)} if masked else {}
    return {"agent_state": rng.normal(size=(num, 2, 4)).astype(dtype), "global_state": states, **mask}


def compile_problem(name: str, kind: str, overrides: list[str]) -> EasyDict:
    """Compile the config of a policy with its default model, for this kind of action."""
    env = dict(type="parity", import_names=["tests.distributed.parity"], kind=kind, collector_env_num=NUM_ENVS)
    default = POLICY_REGISTRY.find(name).default_config()
    known = default.collect
    sizes = dict(n_episode=2 * NUM_ENVS, n_sample=NUM_ENVS * NUM_STEPS)  # an offline policy has neither
    # small networks: every final state of every rank is compared
    model: dict[str, Any] = dict(encoder_hidden_size_list=[16, 8])
    if "actor_head_hidden_size" in default.model:
        model = dict(actor_head_hidden_size=16, critic_head_hidden_size=16)
        model |= {key: [16, 8] for key, value in default.model.items() if isinstance(value, list)}
    collect = {key: value for key, value in sizes.items() if key in known}
    rows: dict[str, Any] = {"multi_agent": True} if kind in OF_AGENTS and "multi_agent" in default else {}
    if "teacher_path" in default.learn:
        rows["learn"] = {"teacher_path": teacher_of(kind, *(word for word in overrides if word.startswith("env.")))}
    main = dict(env=env, policy=dict(cuda=False, collect=collect, model=model, **rows))
    cfg = compile_config((main, dict(env=env, policy=dict(type=name, multi_gpu=True))), overrides=overrides)
    set_shapes(cfg, check_env(cfg.env))
    return cfg


@functools.cache
def teacher_of(kind: str, *overrides: str) -> str:
    """Return the directory of a short run of PPO, for policies that learn from a trained one."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    env = dict(type="parity", import_names=["tests.distributed.parity"], kind=kind)
    policy = dict(model=dict(encoder_hidden_size_list=[16, 8]), collect=dict(n_sample=16), num_threads=1)
    main = dict(exp_name=f"{folder}/teacher", env=dict(n_evaluator_episode=1, evaluator_env_num=1), policy=policy)
    pair = (main, dict(env=env, policy=dict(type="ppo")))
    serial_pipeline_onpolicy(pair, seed=0, max_train_iter=1, overrides=list(overrides))
    return f"{folder}/teacher"


def create_policy(cfg: EasyDict) -> Policy:
    """Return the policy with its default model and `PartlyTouched`, in float64, the same on every rank."""
    torch.manual_seed(0)
    model = copy.deepcopy(base.create_policy(cfg.policy, enable_field=()).model)
    policy = base.create_policy(cfg.policy, wrapped(model, PartlyTouched).double())
    if (teacher := getattr(policy, "teacher", None)) is not None:
        teacher.policy.model.double()
        teacher.policy._dtype = torch.float64
    return policy


def wrapped(model: Any, wrap: Callable[[Any], nn.Module]) -> nn.Module:
    """Return a model with each network that has an optimizer wrapped, or, if it is one itself, wrapped as a whole."""
    # actor and critic of one with a world model get that one's features, not observations
    parts = ["world"] if hasattr(model, "world") else [name for name in NETWORKS if hasattr(model, name)]
    for name in parts:
        part = getattr(model, name)
        setattr(model, name, nn.ModuleList(map(wrap, part)) if name == "actors" else wrap(part))
    return model if parts else wrap(model)


def collect_block(cfg: EasyDict) -> dict[str, Any]:
    """Play a rollout block with one process, environment 0's observations marked."""
    torch.manual_seed(1)
    env = create_vector_env(cfg.env, NUM_ENVS, 0, True)
    policy = create_policy(cfg)
    seeds = list(range(NUM_ENVS))
    episodes = "n_episode" in cfg.policy.collect
    collector = EpisodeCollector(env, policy, 2 * NUM_ENVS, seeds) if episodes else SampleCollector(
        env, policy, NUM_ENVS * NUM_STEPS, seeds
    )  # fmt: skip
    block, _ = collector.collect()
    env.close()
    for obs, place in ((block["obs"], (slice(None), 0)), (block["last_obs"], (0,))):
        for part in [seen(obs), *([obs["global_state"]] if isinstance(obs, dict) and "global_state" in obs else [])]:
            part[(*place, ..., 0)] = MARK
    return block


def take_columns(block: dict[str, Any], columns: range) -> dict[str, Any]:
    """Return the part of a rollout block that these environments played."""
    index = torch.tensor(columns)
    special = ("last_obs", "final_obs", "final_index")
    part = {key: tree_map(lambda leaf: leaf[:, index], block[key]) for key in block if key not in special}
    part["last_obs"] = tree_map(lambda leaf: leaf[index], block["last_obs"])
    step_K, env_K = block["final_index"] // NUM_ENVS, block["final_index"] % NUM_ENVS
    mine = (env_K >= columns.start) & (env_K < columns.stop)
    if mine.any():
        part["final_obs"] = tree_map(lambda leaf: leaf[mine], block["final_obs"])
        part["final_index"] = step_K[mine] * len(columns) + env_K[mine] - columns.start
    return part


def replay_everything(cfg: EasyDict, samples: dict[str, Any], num_envs: int) -> dict[str, Any]:
    """Return one batch of all that a replay buffer, or a data set, holds of these samples."""
    if "context_len" in cfg.policy:
        return all_sequences(cfg, samples, num_envs)
    options = dict(cfg.policy.other.get("replay_buffer", {"type": "uniform", "replay_buffer_size": 10**6}))
    buffer_cls = BUFFER_REGISTRY.find(options.pop("type"))
    options |= {key: cfg.policy[key] for key in ("unroll_len", "burnin_step") if key in cfg.policy}
    kwargs = dict(num_envs=num_envs, nstep=cfg.policy.get("nstep", 1), gamma=cfg.policy.discount_factor)
    first_step = "next_obs_1" in POLICY_REGISTRY.find(cfg.policy.type).required_columns
    buffer = buffer_cls(**kwargs, **options, **({"one_step": True} if first_step else {}))
    buffer.push(samples)
    places = torch.arange(len(buffer.ring.starts(buffer.view.span)) * num_envs)
    batch = buffer.view.gather(buffer.ring, {"index": places}) | {"index": places}
    batch = tree_map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, batch)
    if cfg.policy.get("priority_IS_weight", False) is not False:  # None: Rainbow follows its priorities
        obs = seen(batch["obs"])
        obs = obs[:, :, 0] if isinstance(batch["obs"], dict) and "agent_state" in batch["obs"] else obs
        batch["weight"] = obs[(0,) * (obs.ndim - 2)].sum(-1).sigmoid()
    if "margin_function" in cfg.policy.learn:
        obs = seen(batch["obs"])
        batch["is_expert"] = (obs if obs.ndim == 2 else obs[0]).sum(-1) > 0  # of a sequence, by its first row
    return batch


def all_sequences(cfg: EasyDict, samples: dict[str, Any], num_envs: int) -> dict[str, Any]:
    """Return all pieces of trajectories in these samples, of which some have several cuts."""
    cut_TN = samples["traj_flag"].clone()
    cut_TN[-1] = True
    keys = ("obs", "action", "reward", "done", "traj_flag")
    whole = samples | {"traj_flag": cut_TN}
    rows = {key: tree_map(lambda leaf: leaf.transpose(0, 1).flatten(0, 1).numpy(), whole[key]) for key in keys}
    dataset = SequenceDataset(rows, cfg.policy.context_len)
    row_B, num_steps = torch.arange(len(dataset)), len(dataset) // num_envs
    batch = dataset.gather(row_B) | {"index": row_B % num_steps * num_envs + row_B // num_steps}
    return tree_map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, batch)


def share_noise(policy: Any, batch: dict[str, Any], columns: range, steps: int) -> None:
    """Let the policy draw for each sample of this rank what one process with all of them would after so many steps."""
    draw, calls = policy._draw_noise, itertools.count(steps)
    step_B, env_B = batch["index"] // len(columns), batch["index"] % len(columns)
    place_B, total = step_B * NUM_ENVS + columns.start + env_B, len(batch["index"]) // len(columns) * NUM_ENVS
    if policy.current_config.get("multi_agent"):  # each of two agents is a sample
        place_B, total = torch.stack((place_B * 2, place_B * 2 + 1), -1).flatten(), total * 2
        active_BM = active_agents(batch["obs"])
        assert active_BM is not None
        place_B = place_B[active_BM.flatten()]  # the others are no samples

    def draw_shared(batch: dict[str, Any]) -> dict[str, Tensor]:
        torch.manual_seed(next(calls))
        joined = tree_map(lambda leaf: leaf[:1].expand(total, *leaf.shape[1:]), batch)
        return tree_map(own, draw(joined))

    def own(noise: Tensor) -> Tensor:
        """Return this rank's part of noise that belongs to samples."""
        return noise.index_select(noise.shape.index(total), place_B) if total in noise.shape else noise

    policy._draw_noise = draw_shared


def learn(
    cfg: EasyDict, block: dict[str, Any], columns: range, phases: range = range(1), state: dict[str, Any] | None = None
) -> list[dict[str, Any]]:
    """Take the learning steps of these phases on this rank's part, from a state if one is given.

    Returns:
        Everything that learning changed, after each phase.
    """
    policy = create_policy(cfg)
    part = take_columns(block, columns)
    samples = policy.to_samples(part)
    if learns_from(cfg) != "collect":
        batch = tree_map(lambda leaf: leaf.to(policy.device), replay_everything(cfg, samples, len(columns)))
        share_noise(policy, batch, columns, phases.start * STEPS)
    if learns_from(cfg) == "replay":
        policy.weigh(len(columns) * get_world_size() / NUM_ENVS)
    if state is not None:
        policy.load_state_dict(copy.deepcopy(state))
    states = []
    for _ in phases:
        policy.begin_collect(0)
        count = 0
        while count < STEPS:
            for part in policy.batches(samples) if learns_from(cfg) == "collect" else (batch,):
                policy.learn(part)
                count += 1
        states.append(copy.deepcopy(policy.state_dict()))
    return states


def run_problem(
    problem: dict[str, Any], phases: range = range(1), state: dict[str, Any] | str | None = None
) -> list[dict[str, Any]] | str:
    """Return this rank's states after these phases, or what went wrong."""
    if isinstance(state, str):
        return state
    cfg, world_size = copy.deepcopy(problem["cfg"]), get_world_size()
    cfg.policy.data_parallel = WAYS[world_size]
    cfg.policy.ddp = {"find_unused_parameters": True, "sync_batchnorm": False}
    columns = (EVEN if learns_from(cfg) == "dataset" else UNEVEN)[world_size][get_rank()]
    # all of the samples in one batch, so that there is one joined batch whatever the order
    cfg.policy.learn.batch_size = 10**6
    try:
        return learn(cfg, problem["block"], columns, phases, state)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def run_phase(problems: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return this rank's states, or what went wrong, after the phase of its number of ranks; `before`: those before."""
    phase = PHASES[get_world_size()]
    done = {name: run_problem(each, range(phase, phase + 1), before.get(name)) for name, each in problems.items()}
    return {name: states if isinstance(states, str) else states[0] for name, states in done.items()}


def run_all(folder: str) -> None:
    """Run every problem of `folder`/problems.pt on this rank."""
    with DDPContext():
        problems = torch.load(Path(folder, "problems.pt"), weights_only=False)
        before = Path(folder, f"world{get_world_size() - 1}_rank0.pt")
        states = run_phase(problems, torch.load(before, weights_only=False) if before.exists() else {})
        torch.save(states, Path(folder, f"world{get_world_size()}_rank{get_rank()}.pt"))
    gc.freeze()  # each DistributedDataParallel collects garbage when it is freed at the end: all of that is in use
