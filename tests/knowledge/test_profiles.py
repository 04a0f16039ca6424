from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rule_samples import ROOT

from triage.knowledge import pattern, profiles
from triage.knowledge.load import load_rules
from triage.knowledge.profiles import keep, profile, recall

WORDS = r"tile of (?P<name>\w+) is\s+wide"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder of its own, and a process that knows nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(profiles, "_known", {})
    monkeypatch.setattr(profiles, "_kept", set())
    yield tmp_path / "triage"


def forget() -> None:
    profiles._known.clear()
    profiles._kept.clear()


def never(expression: str) -> object:
    raise AssertionError(f"{expression} is read anew")


def test_what_is_kept_is_what_would_be_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = profile(WORDS)
    assert (read.anchors, read.crosses_lines) == ({"tile of "}, True)
    keep([WORDS])
    forget()
    monkeypatch.setattr(pattern, "anchors", never)
    recall()
    assert profile(WORDS) == read
    with pytest.raises(AssertionError, match="read anew"):
        profile("another (?P<x>expression)")


def test_all_shipped_expressions_are_kept_at_the_first_start(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rules = load_rules(ROOT)
    (file,) = cache.iterdir()
    assert set(json.loads(file.read_text())) == {rule.match.text for rule in rules if rule.match.text}
    first = rules.scanner.possible("T.gemm K shape check failed: K_A = 32, K_B = 128")
    forget()
    again = load_rules(ROOT)
    assert again.rules == rules.rules
    assert again.scanner.possible("T.gemm K shape check failed: K_A = 32, K_B = 128") == first == {"TLG014"}


def test_only_what_is_in_use_stays_kept(cache: Path) -> None:
    keep([WORDS])
    keep(["quite (?P<x>another)"])
    (file,) = cache.iterdir()
    assert list(json.loads(file.read_text())) == ["quite (?P<x>another)"]


def test_other_code_reads_anew(cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    keep([WORDS])
    forget()
    changed = tmp_path / "pattern.py"
    changed.write_bytes(Path(pattern.__file__).read_bytes() + b"\n")
    monkeypatch.setattr(pattern, "__file__", str(changed))
    recall()
    assert profiles._known == {}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "3",
        "[]",
        '{"x": 3}',
        '{"x": [["a"]]}',
        '{"x": [["a"], 1]}',
        '{"x": [["a", ""], true]}',
        '{"x": ["a", true]}',
    ],
)
def test_a_file_that_is_not_as_expected_is_as_good_as_none(cache: Path, text: str) -> None:
    keep([WORDS])
    (file,) = cache.iterdir()
    file.write_text(text)
    forget()
    recall()
    assert profiles._known == {}
    keep([WORDS])
    forget()
    recall()
    assert set(profiles._known) == {WORDS}


def test_a_file_of_somebody_else_is_not_read(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep([WORDS])
    forget()
    monkeypatch.setattr(os, "getuid", lambda: -7)
    recall()
    assert profiles._known == {}


def test_without_a_place_to_keep_anything_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    recall()
    keep([WORDS])
    assert blocked.read_text() == "" and profile(WORDS).anchors == {"tile of "}
