"""Finding a command, its help and its completion."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ding_lite
from ding_lite.cli.main import main
from ding_lite.cli.parsers import COMMANDS, create_parser, help_line, load_command, overview
from tests.distributed.launcher import clean_environment
from tests.run.helpers import CONFIG

UNBROKEN = ("  -s SEED [SEED ...]", "      -c dizoo/", "      dizoo/")  # three names of one option, and long paths


def test_every_command_is_in_the_overview_with_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--help"], ["help"]):
        main(words)
        assert capsys.readouterr().out.strip() == overview()
    for name in COMMANDS:
        assert f"  {name:<11} {help_line(name)}" in overview()
    assert max(map(len, overview().splitlines())) < 80


@pytest.mark.parametrize("name", [*COMMANDS, "classic"])
def test_the_help_of_a_command_has_a_usage_that_it_accepts_and_examples(name: str) -> None:
    command = load_command(name)
    text = create_parser(name, command).format_help()
    assert text.startswith(f"usage: ding_lite{'' if name == 'classic' else ' ' + name} ")
    assert "examples:\n  " in text
    assert help_line(name).endswith(tuple("abcdefghijklmnopqrstuvwxyz"))


@pytest.mark.parametrize("width", [60, 80])
def test_the_overview_and_the_options_fit_the_terminal(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = overview().splitlines()
    assert max(map(len, lines)) <= width
    assert " ".join(" ".join(lines).split()).count(" ".join(help_line("runs").split())) == 1  # nothing is lost
    for name in (*COMMANDS, "classic"):
        text = create_parser(name, load_command(name)).format_help()
        long = [line for line in text.splitlines() if len(line) > width and not line.startswith(UNBROKEN)]
        assert long == []


def test_the_version_and_the_help_of_all_commands_come_without_torch() -> None:
    code = "import sys; from ding_lite.cli.main import main; from ding_lite.cli.parsers import *; "
    code += "[create_parser(name, load_command(name)) for name in COMMANDS]; "
    code += "main(['--version']); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], env=clean_environment(), capture_output=True, text=True)
    assert done.stdout.split() == [ding_lite.__version__, "False"]


def test_bash_completes_commands_options_and_files(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("shtab")
    main(["completion", "bash"])
    (tmp_path / "script").write_text(capsys.readouterr().out)
    (tmp_path / "config.py").touch()
    ask = """
        source ./script
        complete_of() {
            COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
            _shtab_ding_lite
            echo "${COMPREPLY[@]}"
        }
        complete_of ding_lite tr; complete_of ding_lite train --j; complete_of ding_lite train -c con
    """
    done = subprocess.run(["bash", "-c", ask], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["train", "--jobs", "config.py"], done.stderr


@pytest.mark.parametrize("words", [["help"], ["config", str(CONFIG)]])
def test_a_reader_that_has_gone_is_no_mistake(words: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "ding_lite", *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, env=clean_environment(), timeout=240)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_ctrl_c_is_one_line_in_every_command(tmp_path: Path) -> None:
    (tmp_path / "total_config.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    command = [sys.executable, "-m", "ding_lite", "config", "total_config.py"]
    done = subprocess.run(command, cwd=tmp_path, env=clean_environment(), capture_output=True, text=True, timeout=240)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def test_under_a_launcher_rank_0_alone_acts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    for rank, said in (("0", True), ("1", False)):
        for name, value in {**job, "RANK": rank, "LOCAL_RANK": rank}.items():
            monkeypatch.setenv(name, value)
        main([f"--local-rank={rank}", "completion", "bash"])  # torch.distributed.launch puts it first
        assert bool(capsys.readouterr().out) is said
    monkeypatch.delenv("WORLD_SIZE")  # what is left describes no job
    main(["completion", "bash"])
    assert capsys.readouterr().out


TRAP = "open('/dev/stderr', 'w').write('run: ' + __file__)\nopen('executed', 'w')\n"


@pytest.mark.parametrize("values", [True, False])
def test_reading_a_directory_of_runs_runs_nothing_in_it(run_directory: Path, values: bool) -> None:
    """A run that somebody else sent: its config has code beside its values, or instead of them."""
    config = run_directory / "total_config.py"
    text = config.read_text()
    config.write_text(
        text.replace("main_config = ", "main_config = open('executed', 'w') or ") if values else TRAP + text
    )
    commands = ["runs", "plot run", "compare run", "report run", "clean run --yes --runs", "eval run --episodes 1"]
    for words in [*commands, "-m eval --ckpt run --episodes 1", "resume run max_env_step=330"]:
        status: Any = 0
        try:
            main(words.split())
        except SystemExit as end:
            status = end.code
        assert (status or 0) == 2 * (values and words != "runs"), words
        assert not Path("executed").exists(), words


@pytest.mark.parametrize("start", [pytest.param("script", marks=pytest.mark.slow), "module"])
def test_a_module_beside_the_user_never_replaces_an_installed_one(tmp_path: Path, start: str) -> None:
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "ding_lite"  # as pip writes it
    script.write_text("import sys\nfrom ding_lite.cli.main import main\nsys.exit(main())\n")
    for name in ("numpy", "torch", "tqdm", "easydict", "gymnasium", "ale_py", "tensorboardX", "ding_lite_local"):
        (tmp_path / f"{name}.py").write_text(TRAP if name != "ding_lite_local" else "")
    command = [sys.executable, *(["-m", "ding_lite"] if start == "module" else [str(script)])]
    short = [
        "max_env_step=16",
        "env.stop_value=None",
        "env.manager.type=subprocess",
        "policy.import_names=['ding_lite_local']",
    ]
    for words in (["--help"], ["train", "-c", str(CONFIG), "exp_name=run", *short]):
        done = subprocess.run([*command, *words], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert not (tmp_path / "executed").exists(), done.stderr
