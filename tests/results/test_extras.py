from __future__ import annotations

import sys

import pytest

from ding_lite.results.extras import load_extra
from ding_lite.utils.registry import UserError


def test_a_missing_package_is_one_line_that_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "scipy.stats", raising=False)
    monkeypatch.setattr(sys, "meta_path", [])
    monkeypatch.delitem(sys.modules, "scipy", raising=False)
    with pytest.raises(UserError, match=r"scipy is not installed: pip install 'ding_lite\[plot\]'"):
        load_extra("scipy.stats")


def test_a_package_that_is_damaged_inside_is_not_called_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"json\.nothing"):
        load_extra("json.nothing")
