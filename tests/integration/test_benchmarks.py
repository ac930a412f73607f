"""Benchmarks run. What they measure is not a property of the code, so no figure is compared."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROW = r"\| {task} \| {rates} \| {rates} \| [\d.]+ \([\d.]+-[\d.]+\) \| [\d.]+ \|"


def run_batched(*words: str) -> str:
    """Return what `batched` prints in one turn of windows of 0.1 s."""
    command = [sys.executable, "-m", "tests.benchmarks.batched", *words, "--rounds", "1", "--seconds", "0.1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("game", ["cartpole", "pendulum"])
def test_batched_prints_rates_of_our_pipeline_and_of_the_bare_loop(game: str) -> None:
    printed = run_batched("--sides", "ours", "bare", "--games", game, "--sizes", "16", "--layers", "8")
    assert re.search(ROW.format(task=f"{game} N=16 8, 8", rates=r"[\d,]+ / [\d,]+"), printed), printed


@pytest.mark.slow
def test_batched_prints_rates_of_the_collect_alone() -> None:
    printed = run_batched("--collect", "--games", "cartpole", "--layers", "8")
    assert re.search(ROW.format(task="cartpole N=4096 8, 8", rates=r"[\d,]+ / [\d,]+"), printed), printed
