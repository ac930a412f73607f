"""Which number type 'auto' takes on which machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from ding_lite.torch_utils.switches import find_precision
from tests.run.helpers import result, run

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("capabilities", "expected"),
    [
        ({"avx512_bf16": True}, "bf16"),
        ({"avx512_bf16": False, "amx_bf16": True}, "bf16"),
        ({"architecture": "aarch64", "bf16": True}, "bf16"),
        ({"avx2": True, "avx512_bf16": False}, "float32"),
    ],
)
def test_auto_takes_bf16_where_the_processor_multiplies_in_it(
    monkeypatch: pytest.MonkeyPatch, capabilities: dict[str, object], expected: str
) -> None:
    monkeypatch.setattr("torch.cpu.get_capabilities", lambda: capabilities)
    assert find_precision("auto", CPU) == expected
    assert find_precision("float32", CPU) == "float32"
    assert find_precision("bf16", CPU) == "bf16"


def test_summary_and_result_say_what_auto_took(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run("policy.precision=auto", "policy.learn.batch_size=8", max_env_step=32)
    expected = find_precision("auto", CPU)
    assert f"1 thread(s) a rank, {expected}\n" in capfd.readouterr().err
    assert result(tmp_path / "run")["precision"] == expected
