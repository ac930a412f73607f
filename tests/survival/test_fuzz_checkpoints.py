"""A hundred damaged checkpoints, none of which is misread."""

from tests.distributed.launcher import ROOT, run_forked


def test_no_damaged_checkpoint_is_misread() -> None:
    run = run_forked(
        ["-m", "tests.survival.fuzz_checkpoints", "--number", "100", "--seed", "0"], 120, cwd=ROOT, status=None
    )
    assert run.stdout.endswith("100 items: none was misread\n")
    assert " store: iteration_10\n" in run.stdout  # damage was seen
    assert " store: iteration_20\n" in run.stdout  # and was harmless
