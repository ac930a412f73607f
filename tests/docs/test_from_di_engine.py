"""docs/from_di_engine.md: its code runs, its tables are those of the source, and DI-engine's config files are read."""

from __future__ import annotations

import copy
import re
import shlex
from pathlib import Path
from typing import Any

from ding_lite.config import compile_config, set_shapes
from ding_lite.di_engine.keys import IGNORED_KEYS, RENAMED_KEYS
from ding_lite.envs import check_env
from ding_lite.utils import POLICY_REGISTRY
from ding_lite.utils.key import declared_keys
from tests.algorithms import ALGORITHMS
from tests.distributed.launcher import run_ranks
from tests.docs.test_docs import ROOT
from tests.docs.test_extending import TORCHRUN, train, write_files

PAGE = ROOT / "docs" / "from_di_engine.md"
# A config pair with the keys that DI-engine's file has.
MAIN = dict(
    exp_name="cartpole_a2c_seed0",
    env=dict(collector_env_num=8, evaluator_env_num=5, n_evaluator_episode=5, stop_value=195),
    policy=dict(
        cuda=False,
        priority=False,
        model=dict(obs_shape=4, action_shape=2, encoder_hidden_size_list=[128, 128, 64]),
        learn=dict(
            batch_size=40,
            learning_rate=0.001,
            betas=(0.9, 0.999),
            eps=1e-8,
            grad_norm=0.25,
            normalize_advantage=True,
            value_weight=0.5,
            entropy_weight=0.01,
        ),
        collect=dict(n_sample=80, discount_factor=0.95, gae_lambda=0.95, nstep_return=False, nstep=1),
        eval=dict(evaluator=dict(eval_freq=50)),
    ),
)
CREATE = dict(
    env=dict(type="cartpole", import_names=["dizoo.classic_control.cartpole.envs.cartpole_env"]),
    env_manager=dict(type="base"),
    policy=dict(type="a2c"),
)


def test_a_config_with_di_engines_keys_compiles_and_says_what_it_read_otherwise() -> None:
    before = copy.deepcopy((MAIN, CREATE))
    cfg = compile_config([MAIN, CREATE])
    assert sorted(cfg.notes) == [
        "policy.collect.discount_factor is policy.discount_factor here.",
        "policy.collect.nstep is ignored: policy.nstep sets it, where a policy sums n-step returns.",
        "policy.collect.nstep_return is ignored: values learn from generalised advantage estimates.",
        "policy.learn.eps is policy.learn.adam_eps here.",
        "policy.learn.grad_norm is policy.learn.grad_clip_value here.",
        "policy.learn.normalize_advantage is policy.learn.adv_norm here.",
        "policy.priority is ignored: this policy has no prioritised replay.",
    ]
    learn = cfg.policy.learn
    assert (cfg.policy.discount_factor, learn.adv_norm, learn.grad_clip_value) == (0.95, True, 0.25)
    set_shapes(cfg, check_env(cfg.env))
    assert before == (MAIN, CREATE)


FILE = """from easydict import EasyDict

main_config = EasyDict({main})
create_config = EasyDict({create})

if __name__ == "__main__":
    from ding.entry import serial_pipeline_onpolicy
    serial_pipeline_onpolicy([main_config, create_config], seed=0, max_env_step=600)
"""


def test_a_config_file_runs_after_its_package_has_another_name(tmp_path: Path) -> None:
    text = FILE.format(main=MAIN, create=CREATE)
    (tmp_path / "config.py").write_text(re.sub(r"\bding\b", "ding_lite", text))
    done = run_ranks("config.py", nproc=1, timeout=200, cwd=tmp_path)
    assert "policy.collect.discount_factor is policy.discount_factor here." in done.stdout + done.stderr
    assert (tmp_path / "cartpole_a2c_seed0" / "result.json").exists()


def test_the_code_that_replaces_di_engines_trains_on_two_processes(tmp_path: Path) -> None:
    assert write_files(PAGE, tmp_path) == ["my_ppo.py", "guess_env.py", "guess_config.py"]
    *_, command = re.findall(r"^```sh\n(.*)\n```$", PAGE.read_text(), re.M)
    words = shlex.split(command)
    assert words[:4] == TORCHRUN
    result, hashes = train(words[4:], tmp_path)
    assert (result["stop_reason"], result["eval_return_best"]) == ("stop_value", 8.0)  # all of 8 guesses right
    assert len(hashes) == 2
    assert hashes[0] == hashes[1]


def with_tables(page: str) -> str:
    """Return the page with the rows of its two tables of keys as di_engine/keys.py has them."""
    renamed = [f"| `{old}` | `{new}` |\n" for old, new in RENAMED_KEYS.items()]
    ignored = [
        f"| `{key}` | {' or '.join('any' if one is Any else f'`{one!r}`' for one in choices)} | {why} |\n"
        for key, (value, why) in IGNORED_KEYS.items()
        for choices in [value if isinstance(value, tuple) else (value,)]
    ]
    tables = iter(["".join(renamed), "".join(ignored)])
    return re.sub(r"^\| `(?:env|policy|create_config)\..*\n(?:\|.*\n)*", lambda _: next(tables), page, flags=re.M)


def test_tables_of_keys_are_those_of_the_source() -> None:
    page = PAGE.read_text()
    assert page == with_tables(page), "out of date: run python -m tests.docs.test_from_di_engine"


def test_the_page_says_which_defaults_differ() -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Defaults that differ")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| `([\w.]+)` \| `(.+)` \| `(.+)` \|$", section, re.M)
    assert len(rows) == section.count("\n| `") > 20
    for policies, key, theirs, ours in rows:
        for policy in re.findall(r"\w+", policies):
            assert repr(declared_keys(POLICY_REGISTRY.find(policy))[key].default) == ours != theirs, (policy, key)


def test_the_page_lists_every_policy_that_di_engine_has_too() -> None:
    listed = re.findall(r"^\| `(\w+)` \|", PAGE.read_text().partition("## What is the same")[0], re.M)
    pages = {name: ROOT / "docs/algorithms" / f"{name}.md" for name in ALGORITHMS}
    told = {name: page.read_text() for name, page in pages.items() if page.exists()}  # not of second names
    new = [name for name, text in told.items() if "\n* From DI-engine: it has no" in text]
    assert sorted([*listed, *new]) == sorted(ALGORITHMS)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
