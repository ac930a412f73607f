"""Every module has a test file, at the same path or in tests/distributed, or is named here with one that covers it."""

from __future__ import annotations

import re
from pathlib import Path

from ding_lite.multi_agent.rows import MODELS as OF_AGENTS
from ding_lite.utils.registry import MODEL_REGISTRY, POLICY_REGISTRY
from tests.algorithms import ALGORITHMS

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "ding_lite"


def path_of(cls: type) -> str:
    """Return the path of a class's module below ding_lite/."""
    return f"{cls.__module__.removeprefix('ding_lite.').replace('.', '/')}.py"


# Modules without a file of their own, by the test file that covers them; both are paths below ding_lite/ and tests/.
# The table of algorithms names such files of policies, and tests of a policy cover its model.
COVERED = {
    "test_public_names.py": ["lazy.py"],
    "policy/test_calls.py": ["torch_utils/data.py"],
    "cli/test_classic.py": ["cli/running.py", "run/pipelines.py"],
    "cli/test_main.py": ["cli/parsers.py"],
    "cli/test_new.py": ["cli/configs.py", "cli/starter.py"],
    "config/test_parts.py": ["utils/tree.py"],
    "config/test_config.py": ["config/schema.py", "config/user.py"],
    "di_engine/test_translation.py": ["di_engine/keys.py", "di_engine/variants.py"],
    "distributed/test_rpc.py": ["observers/serial_entry_rpc.py"],
    "run/test_serial_entry.py": ["run/experiment.py"],
    "run/test_resume.py": ["run/keeper.py"],
    "reward_model/test_base.py": ["run/learning_part.py"],
    "world_model/test_mbpo.py": ["world_model/base.py"],
    "sweep/test_driver.py": ["sweep/plan.py"],
    "actors/test_actors.py": ["actors/actor_process.py"],
    "envs/test_subprocess_env.py": ["envs/worker_process.py"],
    "envs/test_vector_env.py": [
        *("envs/builders.py", "envs/episode_monitor.py", "envs/keys.py", "envs/seeded_env.py"),
    ],
    "multi_agent/model/test_qmix.py": ["multi_agent/model/agents.py"],
    "policy/policy_gradient/test_a2c.py": ["policy/policy_gradient/actor_critic.py"],
    "model/test_vac.py": ["model/actor_heads.py", "model/arguments.py", "model/common.py"],
    "torch_utils/test_optimizer_step.py": ["torch_utils/optimizer.py"],
    "distributed/test_ddp.py": ["gpu/data_parallel.py"],
    "utils/ranks/test_context.py": [
        *("utils/ranks/flat_parameters.py", "utils/ranks/gradient_mean.py", "utils/ranks/launch_environment.py"),
    ],
    "offline/test_dataset.py": ["offline/files.py"],
    "together/test_meeting.py": [
        *(f"together/{name}.py" for name in ("family", "joint", "rows", "steps", "values")),
    ],
}
OF_POLICIES = {path_of(POLICY_REGISTRY.find(name)): each.tests for name, each in ALGORITHMS.items() if each.tests}
MODELS = {
    path_of(MODEL_REGISTRY.find(model))
    for name in (object.__new__(POLICY_REGISTRY.find(policy)).default_model()[0] for policy in ALGORITHMS)
    for model in (name, OF_AGENTS.get(name))
    if model
}
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if not path.name.startswith("__"))


def has_own_file(module: Path) -> bool:
    name = f"test_{module.name}"
    folders = (TESTS / module.relative_to(PACKAGE).parent, TESTS / "distributed")
    return any((folder / name).exists() for folder in folders)


def test_a_module_has_its_test_file_or_one_that_covers_it() -> None:
    for module in MODULES:
        name = module.relative_to(PACKAGE).as_posix()
        elsewhere = [file for file, names in COVERED.items() if name in names]
        elsewhere += [OF_POLICIES[name]] if name in OF_POLICIES else []
        expected = f"tests/{module.relative_to(PACKAGE).parent.as_posix()}/test_{module.name}"
        if name in MODELS and not elsewhere:
            continue
        assert has_own_file(module) != bool(elsewhere), f"{expected}, or a line in COVERED or the table, and not both"
        assert len(elsewhere) <= 1


def test_the_table_names_files_that_exist() -> None:
    assert [name for names in COVERED.values() for name in names if not (PACKAGE / name).exists()] == []
    assert [file for file in (*COVERED, *OF_POLICIES.values()) if not (TESTS / file).exists()] == []


def test_names_of_tests_have_at_most_80_characters() -> None:
    names = [name for path in TESTS.rglob("*.py") for name in re.findall(r"def (test_\w+)", path.read_text())]
    assert [name for name in names if len(name) > 80] == []
