"""The harness, loaded as the observed process loads it, and a context that writes into a temporary directory."""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
import textwrap
from pathlib import Path

import pytest

HARNESS = Path(__file__).resolve().parent.parent.parent / "triage" / "harness"


@pytest.fixture(scope="session")
def harness():
    """`harness("errors")` is the module `errors.py` of the harness."""
    if "_triage_harness" not in sys.modules:
        spec = importlib.util.spec_from_file_location("triage_harness_boot", HARNESS / "boot.py")
        boot = importlib.util.module_from_spec(spec)
        path = list(sys.path)
        spec.loader.exec_module(boot)
        assert sys.path == path
        boot.load_package(str(HARNESS))
    return lambda name: importlib.import_module(f"_triage_harness.{name}")


@pytest.fixture
def context(harness, tmp_path):
    spec = {"dir": str(tmp_path), "blobs": str(tmp_path / "blobs"), "mode": "virtual", "script": None}
    return harness("events").Context(spec)


@pytest.fixture
def script(tmp_path):
    """Write a script and run it in this process: `script(text)` returns its namespace, or raises what it raised."""
    count = 0

    def run(text: str, **names) -> dict:
        nonlocal count
        count += 1
        path = tmp_path / f"user{count}.py"
        path.write_text(textwrap.dedent(text))
        namespace = {"__name__": "user", "__file__": str(path), **names}
        exec(compile(path.read_text(), str(path), "exec"), namespace)
        return namespace

    return run


@pytest.fixture
def events(context):
    """The events written so far, large values read back from their blobs."""

    def read(kind: str | None = None) -> list[dict]:
        out = []
        for file in sorted(Path(context.log.directory).glob("events-*.jsonl")):
            for line in file.read_text().splitlines():
                event = {k: _blob(context, v) for k, v in json.loads(line).items()}
                if kind is None or event["type"] == kind:
                    out.append(event)
        return out

    return read


def _blob(context, value):
    if isinstance(value, dict) and list(value) == ["blob"]:
        text = Path(context.log.blobs, value["blob"]).read_text()
        return json.loads(text) if text.startswith(("{", "[", '"')) else text
    return value
