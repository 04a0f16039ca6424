"""Which tilelang a text says is installed: stated, or mentioned alone and without a doubt."""

from __future__ import annotations

import pytest

from triage.readers.installed import installed_tilelang

STATED = [
    "tilelang==0.1.9\nValueError: boom",
    "tilelang 0.1.9",
    "TileLang version: 0.1.9",
    "- TileLang: v0.1.9\n- torch: 2.6.0",
    "**TileLang version**: 0.1.9",
    "tilelang                  0.1.9+cuda.git1234",
    "| tilelang | 0.1.9 |",
    "Name: tilelang\nVersion: 0.1.9",
    "Requirement already satisfied: tilelang in ./venv/lib/python3.12/site-packages (0.1.9)",
    "Requirement already satisfied: tilelang>=0.1.5 in ./venv (from -r requirements.txt (line 3)) (0.1.9)",
    ">>> tilelang.__version__\n'0.1.9'",
    "tilelang.__version__ = 0.1.9",
    "### What version of TileLang are you using?\n\n0.1.9",
    "torch 2.6.0, tilelang 0.1.9, CUDA 12.4",
    "Successfully installed apache-tvm-ffi-0.1.11 tilelang-0.1.9 torch-2.4.0",
    "tilelang==0.1.14 is what I compare against; installed: tilelang 0.1.9",
    "It works in tilelang 0.1.8.\nInstalled version: tilelang 0.1.9",
]
MENTIONED = [
    "My kernel does not build with tilelang==0.1.9.",
    "I use tilelang 0.1.9 on an H100.",
    "pip install tilelang==0.1.9",
    "Environment: tilelang 0.1.9, torch 2.4, H100",
]
ANOTHER = [
    "Not reproducible with tilelang 0.1.9",
    "Not reproducible with tilelang version 0.1.9",
    "I don't see it in tilelang 0.1.9",
    "Upgrading from tilelang 0.1.9 to 0.1.15 did not help.",
    "The docs of tilelang 0.1.9 mention it.",
    "Last release without it: tilelang 0.1.9",
    "Fixed in version: tilelang 0.1.9",
    "It works with tilelang 0.1.9",
    "tilelang 0.1.9 fails, 0.1.8 too",
    "this needs tilelang>=0.1.9",
    "ERROR: tilelang-0.1.9-cp312-abi3-linux.whl is not a supported wheel on this platform",
    "/opt/tilelang/3rdparty/clang+llvm-10.0.1-x86_64",
    "tilelangg 0.1.9",
    "tilelang 0.1.9\ntilelang 0.1.12",
    "I run tilelang 0.1.9.\nMy colleague runs tilelang 0.1.12.",
]


@pytest.mark.parametrize("text", STATED + MENTIONED)
def test_a_release_that_is_stated_or_mentioned_alone_is_the_installed_one(text: str) -> None:
    assert installed_tilelang(text) == "0.1.9"


@pytest.mark.parametrize("text", ANOTHER)
def test_a_release_that_worked_was_tried_or_contradicts_another_is_not(text: str) -> None:
    assert installed_tilelang(text) is None


def test_post_releases_are_kept_and_local_parts_are_not() -> None:
    assert installed_tilelang("tilelang 0.1.7.post2+cu128") == "0.1.7.post2"
