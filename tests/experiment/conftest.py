from __future__ import annotations

from pathlib import Path

import pytest
from captured import KERNELS, capture

from triage.experiment.template import Template


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    pytest.importorskip("tilelang")
    with Template(tmp_path_factory.mktemp("template"), target={"kind": "cuda", "arch": "sm_90a"}) as running:
        yield running


@pytest.fixture(scope="session")
def captured(tmp_path_factory):
    """`captured("name")` are the kernels of `kernels/name.py`, run once a session."""
    pytest.importorskip("tilelang")
    known: dict[str, list] = {}

    def get(name: str) -> list:
        if name not in known:
            known[name] = capture(KERNELS / f"{name}.py", Path(tmp_path_factory.mktemp(name)))
        return known[name]

    return get
