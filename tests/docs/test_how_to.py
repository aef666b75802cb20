"""The skeleton of the how-to is a method: it passes the linter, trains, and is charged."""

from __future__ import annotations

import re
import subprocess
import sys
import types

import numpy as np
import pytest
from page_blocks import ROOT

from tacit.accounting import Budget
from tacit.data.federation import Federation
from tacit.run import Run, Settings
from tacit.tasks.logistic import Logistic

PAGE = ROOT / "docs" / "how-to" / "add-an-algorithm.md"


@pytest.fixture(scope="module")
def skeleton() -> str:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=" ".join)
def test_the_skeleton_passes_the_linter(skeleton: str, check: list[str]) -> None:
    name = str(ROOT / "src" / "tacit" / "algorithms" / "skeleton.py")
    command = [sys.executable, "-m", "ruff", *check, "--stdin-filename", name, "-"]
    done = subprocess.run(command, input=skeleton, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_the_skeleton_trains_within_a_budget(skeleton: str) -> None:
    module = types.ModuleType("skeleton")
    sys.modules["skeleton"] = module  # dataclasses look their module up
    exec(compile(skeleton, "skeleton.py", "exec"), module.__dict__)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 3))
    federation = Federation(
        records={"x": x, "y": (x[:, 0] > 0).astype(np.int32)},
        sizes=np.full(20, 2),
        names=tuple(f"client-{i}" for i in range(20)),
        classes=2,
    )
    method = module.NormalizedDescent(lr=0.5)
    run = Run.of(
        method,
        Logistic(features=3),
        federation,
        rounds=5,
        budget=Budget(8.0, 1e-3),
        settings=Settings(seed=0),
    )
    result = run.train()
    assert 7.9 < result.guarantee.epsilon <= 8.0
    assert np.isfinite(result.metrics["oracle/loss"])
