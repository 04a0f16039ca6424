"""Where a source sets environment variables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.knowledge.environment import find_settings

NAMES = ("CUDA_HOME", "CUDA_PATH")


@pytest.mark.parametrize(
    ("source", "line", "value"),
    [
        ("import os\nos.environ['CUDA_HOME'] = '/old'", 2, "/old"),
        ("from os import environ\nenviron['CUDA_PATH'] = f'{root}/cuda'", 2, None),
        ("os.environ.setdefault('CUDA_HOME', '/old')", 1, "/old"),
        ("os.putenv('CUDA_HOME', '/old')", 1, "/old"),
        ("os.environ.update(\n  A='1',\n  CUDA_HOME='/old')", 3, "/old"),
        ("os.environ.update({\n  'A': '1',\n  'CUDA_HOME': '/old'})", 3, "/old"),
        ("def setup():\n  os.environ['CUDA_HOME'] = find()", 2, None),
    ],
)
def test_a_setting_is_found_however_it_is_written(source: str, line: int, value: str | None) -> None:
    ((spot, found),) = find_settings(source, NAMES)
    assert (spot.line, found) == (line, value)


@pytest.mark.parametrize(
    "source",
    [
        "os.environ['PATH'] = '/old'",
        "print(os.environ['CUDA_HOME'])",
        "home = os.environ.get('CUDA_HOME', '/old')",
        "settings['CUDA_HOME'] = '/old'",
        "settings.setdefault('CUDA_HOME', '/old')",
        "os.environ[name] = '/old'",
        "os.environ.update(**more)",
        "os.environ.update({**more})",
        "def broken(:",
    ],
)
def test_what_sets_none_of_them_is_not_found(source: str) -> None:
    assert find_settings(source, NAMES) == []


@given(st.text(max_size=200))
def test_any_text_is_taken(source: str) -> None:
    assert find_settings(source, NAMES) == []
