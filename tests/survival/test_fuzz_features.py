"""Random combinations of features, which resuming, saved configs and processes leave as they are."""

import pytest

from tests.distributed.launcher import ROOT, run_forked


@pytest.mark.slow
def test_what_must_not_matter_does_not_matter() -> None:
    run = run_forked(
        ["-m", "tests.survival.fuzz_features", "--number", "20", "--seed", "0"], 900, cwd=ROOT, status=None
    )
    assert run.stdout.startswith("20 items: ")
    assert "same" in run.stdout
