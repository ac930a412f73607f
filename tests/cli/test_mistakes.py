"""What is wrong with a command is one line of every command, and nothing starts."""

from __future__ import annotations

from pathlib import Path

import pytest

import ding_lite.run.setup as entry_setup
from tests.cli.commands import mistake
from tests.distributed.launcher import ROOT
from tests.run.helpers import CONFIG

ATARI = ROOT / "dizoo" / "atari" / "pong_dqn_ddp_config.py"
# Each line: the words of a command, and a part of the error.
MISTAKES = """
-c {c} policy.learn.bacth_size=16 | Unknown key 'policy.learn.bacth_size'. Did you mean 'policy.learn.batch_size'?
-c {c} tracker.type=wandbb | Unknown tracker type 'wandbb'. Did you mean 'wandb'
-c {c} max_env_steps=100 | Unknown key 'max_env_steps'. Did you mean 'max_env_step'? It is a limit: a word
-c {c} max_env_step=many | max_env_step: expected a whole number above 0, got 'many'
-c {c} -m offline max_env_step=9 | serial_pipeline_offline plays no environment, so max_env_step cannot limit it
-c {c} -m offline | use serial_pipeline(...), or on the command line -m serial, which is also the default.
-c {c} -m rpc | needs an agent and at least one observer
-c {c} -m serial_onpolicy | Policy 'dqn' learns from a replay buffer: use serial_pipeline(...), or
train -c {c} --max-env-step 9 | Did you mean 'max_env_step='?
-c {c} max_train_iter=0 | max_train_iter: expected a whole number above 0, got '0'
-c {c} policy.learn.batch_size | A key of the config is changed by key=value
-c {c} policy.learn.learner.hook.load_ckpt_before_run=gone.pth.tar | 'gone.pth.tar'
-c {atari} env.env_id=Pomg | no Atari ROM 'Pomg'. Did you mean 'Pong'?
-s 1 | -c is missing
-m eval | --ckpt is missing
-m onpolicy -c x.py | invalid choice
resume | the following arguments are required: DIR
resume run -s 1 | unrecognized arguments: -s 1
resume run --nproc 0 | expected --nproc >= 1
-c {c} --nproc 4097 | --nproc: 4097 processes would share
train -c {c} -s 0 1 2 --nproc 2049 --jobs 2 | --jobs: 4098 processes would share
sweep -c {c} policy.nstep=1,3 --nproc 2049 --jobs 2 | --jobs: 4098 processes would share
-m eval --ckpt x --nproc 2 | leave out --nproc
-c x.py --load-path run | --ckpt (--load-path) and --episodes need -m eval
-m eval --ckpt x --episodes 0 | expected --episodes >= 1, got 0
-m eval --ckpt x --divide | leave out --nproc, --max-restarts, --divide and
-c missing.py | Config file 'missing.py' does not exist: give the path of a Python file.
TRAIN -c x.py | Unknown command 'TRAIN'. Did you mean 'train'?
trian -c x.py | Unknown command 'trian'. Did you mean 'train'? See ding_lite --help.
my_config.py -s 0 | Unknown command 'my_config.py'. To train a config file: ding_lite -c my_config.py
-c x.py -seed 0 | ding_lite: unrecognized arguments: -seed. Did you mean '--seed'? See ding_lite
completion bash a.b=1 | ding_lite completion: unrecognized arguments: a.b=1. See
completion fish | ding_lite completion: argument shell: invalid choice: 'fish'
train | ding_lite train: the following arguments are required: -c/--config. See ding_lite train --help.
train -c x.py --sed 0 | ding_lite train: unrecognized arguments: --sed 0. Did you mean '--seed
train -c x.py max_env_step | max_env_step. A key of the config is changed by key=value, without spaces. See ding_lite
train -c {c} --submit local submit.nodes=2 | --submit local: LocalExecutor can use only one node
train -c {c} --submit local submit.node=2 | Parameter 'node' need to be prefixed by an executor name
train -c {c} submit.nodes=2 | submit.nodes=2 is an option of a cluster: add --submit slurm
-m eval --ckpt x --submit local | leave out --nproc, --max-restarts, --divide and --submit
train -c {c} -s 0 1 -s 0 | -s: seed 0 is given twice
train -c {c} -s 0 1 policy.learn.bacth_size=3 | Did you mean 'policy.learn.batch_size'?
new CartPoel-v1 | Did you mean: `CartPole`?
new CartPole-v1 dqm | Did you mean 'dqn'?
new CartPole-v1 sac | Policy 'sac' expects Box actions, got Discrete(2)
new Pendulum-v1 pg | Policy 'pg' hardly learns continuous actions: use 'ppo' or 'sac'
new CartPole-v1 cql | Policy 'cql' learns from a data set
new CartPole-v1 dqn -o there.py | 'there.py' exists: remove it, or give another name with -o.
new CartPole-v1 dqn -o no/where.py | Cannot write 'no/where.py'
eval gone | 'gone' does not exist
eval run env.frame_stak=4 | Did you mean 'env.frame_stack'
eval run max_env_step=9 | max_env_step has no effect on an evaluation
eval run max_seconds=9 | max_seconds has no effect on an evaluation
eval run/metrics.jsonl | is not in the ckpt folder
play run --episodes 0 | expected --episodes >= 1
video run --episodes 0 | expected --episodes >= 1
video run -o films/one.gif | got 'films/one.gif': write --output films/one --format gif.
runs none | 'none' does not exist or is not a directory
plot . -o x.jpg | 'x.jpg': expected a name that ends in
plot . --metric eval/retrn | Did you mean 'eval/return_mean'?
plot . --metric eval/return_men | None of these runs has recorded 'eval/return_men'. Did you mean
plot . --by policy.nstop | --by policy.nstop: expected algorithm, env, run or a config key. Did you mean
plot . --window 0 | expected --window >= 1, got 0
plot . --width 0 | expected --width from 1 to 50, got 0
plot . -o there.py/x.png | Cannot write 'there.py/x.png'
compare . -o table.xls | 'table.xls': expected a name that ends in .txt, .md, .csv, or --format.
compare . -o curves.pdf | a picture needs --normalize
compare . --against ppo | --against ppo: CartPole-v0 has no such group.
compare . -o run/total_config.py/x.md | Cannot write 'run/total_config.py/x.md'
report run --videos -1 | expected --videos >= 0, got -1
report run --against ppo | has no such group
sweep -c {c} -s 0 1 -s 0 | -s: seed 0 is given twice
sweep -c {c} policy.nstep=5..1:int | a range begins with its lower end, got '5..1:int': write policy.nstep=1..5:int.
sweep -c {c} policy.learn.learning_rat=1e-4..1e-2 | Unknown key 'policy.learn.learning_rat'. Did you mean
sweep -c {c} policy.learn.batch_size=32,64.5 | policy.learn.batch_size: expected
sweep -c {c} policy.learn.batch_size=0..64 | policy.learn.batch_size: expected
sweep -c {c} policy.learn.learning_rate=a..b | A sweep needs a key that differs
sweep -c {c} policy=dqn,dqnn | 'dqnn'
sweep -c {c} policy.learn.batch_size=32 | A sweep needs a key that differs
sweep -c {c} policy.nstep=1,3 max_env_step=0 | max_env_step: expected a whole number above 0
sweep -c {c} policy.nstep=1,3 --trials 0 | expected --trials >= 1, got 0.
sweep -c {c} policy.nstep=1,3 --jobs 0 | expected --jobs >= 1, got 0.
sweep -c {c} policy.learn.learning_rate=1e-4..1e-2 --sampler grid | policy.learn.learning_rate: a grid needs a list
sweep -c {c} policy.nstep=1,3 --storage nodb://x/y | Cannot open the storage
sweep -c {c} policy.nstep=1,3 -o there.py/sweep | Cannot open the storage 'there.py/sweep/journal.log'
"""
PACKAGES = {
    "sweep": ["optuna"],
    "plot": ["matplotlib", "scipy"],
    "compare": ["scipy"],
    "report": ["matplotlib", "scipy"],
}


@pytest.mark.usefixtures("run_directory")
@pytest.mark.parametrize("case", MISTAKES.strip().splitlines())
def test_a_mistake_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, case: str
) -> None:
    monkeypatch.setattr(entry_setup, "create_vector_env", lambda *args, **options: pytest.fail("it starts"))
    words, message = case.format(c=CONFIG, atari=ATARI).split(" | ")
    for package in PACKAGES.get(words.split()[0], []):
        pytest.importorskip(package)
    (tmp_path / "there.py").write_text("mine")
    before = set(tmp_path.rglob("*"))
    assert message in mistake(capsys, *words.split())
    assert {path.name for path in set(tmp_path.rglob("*")) - before} <= {"__pycache__", "cartpole_dqn_sweep"}
    assert (tmp_path / "there.py").read_text() == "mine"
