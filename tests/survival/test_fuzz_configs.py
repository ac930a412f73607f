"""A hundred and twenty spoilt config files, each of which is refused by one clear line, or runs."""

from tests.distributed.launcher import ROOT, run_forked


def test_no_spoilt_config_ends_in_the_depths() -> None:
    words = ["--number", "120", "--seed", "0", "--runs", "12", "--processes", "1"]
    run = run_forked(["-m", "tests.survival.fuzz_configs", *words], 240, cwd=ROOT)
    assert run.stdout.endswith("120 items: each a clear error, or it runs\n")
    assert " all: refused\n" in run.stdout
    assert " all: runs\n" in run.stdout
