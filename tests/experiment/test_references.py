"""`--reference`: what can be known of one without running anything."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.experiment.references import BadReference, look_at, read_reference, spec_of


@pytest.fixture
def script(tmp_path: Path) -> Path:
    (tmp_path / "ref.py").write_text("def matmul(a, b):\n    return a @ b\n", encoding="utf-8")
    path = tmp_path / "kernel.py"
    path.write_text("import tilelang\n", encoding="utf-8")
    return path


def test_a_reference_names_module_function_and_kernel(script: Path, tmp_path: Path) -> None:
    found = read_reference("ref:matmul@main", script, tmp_path / "elsewhere")
    assert (found.module, found.function, found.kernel) == ("ref", "matmul", "main")
    assert found.file == str(tmp_path / "ref.py")
    look_at(found, script, own_interpreter=True)


def test_a_path_counts_from_the_working_directory_and_its_folder_can_be_imported_from(script: Path) -> None:
    found = read_reference("../refs/r.py:f.g", script, script.parent)
    assert found.file == str(script.parent / "../refs/r.py") and found.module == ""
    assert found.paths[0] == str(script.parent / "../refs") and found.kernel is None


@pytest.mark.parametrize("text", ["ref", ":f", "ref:", "ref:1f", "a b:f", "ref:f@", "ref:f()"])
def test_what_is_no_reference_is_refused(text: str, script: Path) -> None:
    with pytest.raises(BadReference, match="write module:function"):
        read_reference(text, script, script.parent)


@pytest.mark.parametrize(
    ("text", "content", "says"),
    [
        ("ref:mat", "def matmul(a, b): ...", "has no mat at its top level; it has matmul"),
        ("ref:f", "def g():\n    def f(): ...", "has no f at its top level; it has g"),
        ("ref:f", "def f(:", "cannot be parsed"),
        ("gone.py:f", "", "no such file"),
        ("no_such_module_anywhere:f", "", "no module 'no_such_module_anywhere'"),
    ],
)
def test_what_cannot_be_called_is_seen_before_the_run(text: str, content: str, says: str, script: Path) -> None:
    (script.parent / "ref.py").write_text(content, encoding="utf-8")
    with pytest.raises(BadReference, match=says):
        look_at(read_reference(text, script, script.parent), script, own_interpreter=True)


@pytest.mark.parametrize(
    "content",
    [
        "from other import *",
        "from other import f",
        "f = other",
        "if x:\n    def f(): ...",
        "globals()['f'] = 1",
        "class f: ...",
    ],
)
def test_what_only_a_run_can_tell_is_left_to_it(content: str, script: Path) -> None:
    (script.parent / "ref.py").write_text(content, encoding="utf-8")
    look_at(read_reference("ref:f", script, script.parent), script, own_interpreter=True)


def test_a_script_that_adds_folders_and_another_interpreter_may_find_more_modules(script: Path) -> None:
    found = read_reference("no_such_module_anywhere:f", script, script.parent)
    look_at(found, script, own_interpreter=False)
    script.write_text("import sys\nsys.path.insert(0, 'lib')\n", encoding="utf-8")
    look_at(found, script, own_interpreter=True)


def test_the_harness_is_told_nothing_without_references_and_the_tolerances_with_them(script: Path) -> None:
    assert spec_of(()) == {}
    told = spec_of([read_reference("ref:matmul", script, script.parent)])
    assert told["tolerances"]["float16"] == [1e-3, 1e-3] and told["tolerances"]["bfloat16"] == [1e-2, 1e-2]
    assert told["references"][0]["function"] == "matmul"
