"""Our side: the real pipelines of ding_lite with a plain config, timed from outside.

An ``--option`` is a config override such as ``policy.double=False``, or ``split``: this rank's share of the task's
sizes, by ``to_ddp_config``. Works under a launcher, where the window needs to be given in ``--steps``.
"""

from __future__ import annotations

import ast
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[2]))  # also where the project is not installed

from tests.benchmarks.meter import Finished, Meter
from tests.benchmarks.settings import (
    TASKS,
    A2CTask,
    DQNTask,
    OnPolicyTask,
    PPOTask,
    QACTask,
    QRDQNTask,
    Task,
    parse_side,
)

KINDS: dict[type[Task], str] = {A2CTask: "a2c", PPOTask: "ppo", DQNTask: "dqn", QRDQNTask: "qrdqn"}


def model_config(task: Task) -> dict[str, Any]:
    """``policy.model`` of a task."""
    if isinstance(task, QACTask):
        size = task.hidden[0]
        return dict(actor_head_hidden_size=size, critic_head_hidden_size=size)
    common = dict(encoder_hidden_size_list=list(task.hidden))
    if isinstance(task, OnPolicyTask):
        heads = dict(share_encoder=task.pong, actor_head_layer_num=0, critic_head_layer_num=0)
        return common | heads | dict(activation="relu" if task.pong else "tanh")
    return common | (
        dict(head_layer_num=0, num_quantiles=task.quantiles)
        if isinstance(task, QRDQNTask)
        else dict(dueling=False, head_layer_num=0)
    )


def make_config(name: str, task: Task, options: list[str]) -> tuple[Any, Any]:
    """``(main_config, create_config)`` of a task. The only evaluation comes before the clock starts."""
    from easydict import EasyDict

    main_config = EasyDict(
        exp_name=name,
        env=dict(
            env_id=task.env_id,
            collector_env_num=task.num_envs,
            evaluator_env_num=1,
            n_evaluator_episode=1,
            manager=dict(),
        ),
        policy=task.policy_config() | dict(model=model_config(task)),
    )
    kind = task.algorithm if isinstance(task, QACTask) else KINDS[type(task)]
    create_config = EasyDict(
        env=dict(type="atari", import_names=["dizoo.atari.envs.atari_env"]) if task.pong else dict(type="gymnasium"),
        env_manager=dict(type="native" if task.pong else "base"),
        policy=dict(type=kind),
    )
    for key, _, value in (option.partition("=") for option in options if "=" in option):
        set_key(main_config, key, value)
    return main_config, create_config


def compile_task(name: str, options: list[str] | None = None) -> Any:
    """The compiled config of a task, for benchmarks of single parts."""
    from ding_lite.config import compile_config

    return compile_config(make_config(name, TASKS[name], options or []))


def set_key(config: dict[str, Any], key: str, value: str) -> None:
    """Set ``a.b.c`` to a Python literal, or to the text itself where it is none."""
    *parents, last = key.split(".")
    for parent in parents:
        config = config.setdefault(parent, {})
    try:
        config[last] = ast.literal_eval(value)
    except (ValueError, SyntaxError):
        config[last] = value


def main() -> None:
    """Train until the meter says stop."""
    args = parse_side(__doc__)
    from ding_lite.entry import serial_pipeline, serial_pipeline_onpolicy
    from ding_lite.policy import Policy
    from ding_lite.torch_utils.optimizer_step import OptimizerStep
    from ding_lite.utils import DDPContext, get_rank, get_world_size, to_ddp_config
    from ding_lite.worker import SampleCollector
    from tests.benchmarks.networks import count_parameters

    main_config, create_config = make_config(args.task, TASKS[args.task], args.option)
    with DDPContext():
        if "split" in args.option:
            main_config = to_ddp_config(main_config)
        main_config.policy.multi_gpu = get_world_size() > 1
        main_config.policy.cuda = args.device == "cuda"
        if get_rank():
            args.result = os.devnull
        meter = Meter("ours", args, ranks=get_world_size(), options=args.option)
        collect, create_model, step = SampleCollector.collect, Policy._create_model, OptimizerStep.step

        def collect_and_tell(self: Any, *rest: Any, **keywords: Any) -> Any:
            meter.boundary(self.envstep)
            return collect(self, *rest, **keywords)

        def create_and_count(self: Any) -> Any:
            model = create_model(self)
            meter.info["parameters"] = count_parameters(model)
            return model

        def step_and_count(self: Any, *rest: Any) -> Any:
            updates = meter.updates
            output = step(self, *rest)
            meter.updates = updates + len(self.optimizers)  # a replayed CUDA graph calls no hook of torch
            return output

        SampleCollector.collect, Policy._create_model = collect_and_tell, create_and_count  # type: ignore[method-assign]
        OptimizerStep.step = step_and_count  # type: ignore[assignment,method-assign]
        pipeline = serial_pipeline_onpolicy if isinstance(TASKS[args.task], OnPolicyTask) else serial_pipeline
        with suppress(Finished):
            pipeline((main_config, create_config), seed=args.seed, max_env_step=10**9)


if __name__ == "__main__":
    main()
