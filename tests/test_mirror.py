"""Every module has a test file, at the same path or in tests/distributed, or is named here with one that covers it."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "ding_lite"
# Modules without a file of their own, by the test file that covers them; both are paths below ding_lite/ and tests/.
COVERED = {
    "test_public_names.py": ["lazy.py"],
    "cli/test_classic.py": ["cli/running.py", "run/pipelines.py"],
    "cli/test_main.py": ["cli/parsers.py"],
    "cli/test_new.py": ["cli/configs.py", "cli/starter.py"],
    "config/test_config.py": ["config/schema.py"],
    "distributed/test_rpc.py": ["observers/serial_entry_rpc.py"],
    "run/test_serial_entry.py": ["run/experiment.py"],
    "offline/test_sqil.py": ["offline/serial_entry_sqil.py"],
    "run/test_resume.py": ["run/keeper.py"],
    "actors/test_actors.py": ["actors/actor_process.py"],
    "policy/continuous/test_ensembles.py": [
        *("policy/continuous/redq.py", "policy/continuous/tqc.py", "offline/policy/edac.py"),
    ],
    "envs/test_subprocess_env.py": ["envs/worker_process.py"],
    "envs/test_vector_env.py": [
        *("envs/builders.py", "envs/episode_monitor.py", "envs/keys.py", "envs/seeded_env.py"),
    ],
    "model/test_models.py": ["model/discrete_qac.py"],
    "offline/policy/test_bcq.py": ["offline/model/bcq.py"],
    "offline/policy/test_dt.py": ["offline/model/decision_transformer.py"],
    "multi_agent/model/test_qmix.py": ["multi_agent/model/agents.py"],
    "multi_agent/policy/test_coma.py": ["multi_agent/model/coma.py"],
    "policy/policy_gradient/test_a2c.py": ["policy/policy_gradient/actor_critic.py"],
    "multi_agent/policy/test_mappo.py": ["multi_agent/model/mavac.py"],
    "multi_agent/policy/test_qmix.py": ["multi_agent/policy/madqn.py", "multi_agent/policy/wqmix.py"],
    "model/test_vac.py": ["model/actor_heads.py", "model/arguments.py", "model/common.py"],
    "policy/test_stdim.py": ["model/contrastive.py"],
    "policy/test_base.py": ["policy/common_keys.py"],
    "policy/test_modes.py": ["torch_utils/switches.py"],
    "policy/continuous/test_ddpg.py": ["policy/continuous/td3.py"],
    "policy/continuous/test_recurrent.py": ["model/recurrent_qac.py"],
    "policy/value/test_distributional.py": ["policy/value/iqn.py"],
    "policy/value/test_losses.py": [
        *("offline/policy/discrete_cql.py", "policy/value/mdqn.py", "policy/value/qrdqn.py", "policy/value/sql.py"),
    ],
    "rl_utils/test_distribution.py": ["rl_utils/compat.py"],
    "rl_utils/test_losses.py": ["rl_utils/common.py"],
    "torch_utils/test_optimizer_step.py": [
        *("torch_utils/data_parallel.py", "torch_utils/optimizer.py", "torch_utils/optimizer.py")
    ],
    "utils/ranks/test_context.py": [
        *("utils/ranks/flat_parameters.py", "utils/ranks/gradient_mean.py", "utils/ranks/launch_environment.py"),
    ],
    "offline/test_dataset.py": ["offline/files.py"],
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
        expected = f"tests/{module.relative_to(PACKAGE).parent.as_posix()}/test_{module.name}"
        assert has_own_file(module) != bool(elsewhere), f"{expected}, or a line in COVERED, and not both"
        assert len(elsewhere) <= 1


def test_the_table_names_files_that_exist() -> None:
    assert [name for names in COVERED.values() for name in names if not (PACKAGE / name).exists()] == []
    assert [file for file in COVERED if not (TESTS / file).exists()] == []


def test_names_of_tests_have_at_most_80_characters() -> None:
    names = [name for path in TESTS.rglob("*.py") for name in re.findall(r"def (test_\w+)", path.read_text())]
    assert [name for name in names if len(name) > 80] == []
