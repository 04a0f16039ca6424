"""The syntax tree: edits keep the rest of the text, names are followed to where they get their value, diffs apply."""

from __future__ import annotations

import subprocess
from pathlib import Path

import libcst as cst
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.fixes import tree
from triage.fixes.tree import Edit, Source, Sources, unified

TEXT = """\
import tilelang.language as T   # the language

BLOCK = 128


def factory(M,   N, tile=(64, 32), *, stages = 2):
    rows, cols = tile
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16")):
        with T.Kernel(  N // BLOCK , threads=128) as bx:   # odd   spacing stays
            s = T.alloc_shared( (rows, cols), "float16" )
            T.copy(A[bx*BLOCK, 0],
                   s)
    return main

kernel = factory(1024, 512, tile=(32, 16))
"""


def test_an_edit_changes_nothing_but_its_node():
    source = Source("k.py", TEXT)
    (name,) = [n for n in source.at(cst.Attribute, 11) if n.attr.value == "alloc_shared"]
    assert source.edited([(name.attr, cst.Name("alloc_fragment"))]) == TEXT.replace("alloc_shared", "alloc_fragment")


@pytest.mark.parametrize("ends", ["\n", "\r\n"])
@pytest.mark.parametrize("tail", ["", "\n", "\n\n# end"])
def test_line_ends_and_the_last_line_stay(ends, tail):
    text = f"a = 1{ends}b = foo( 2 ){tail.replace(chr(10), ends)}"
    source = Source("k.py", text)
    (two,) = [n for n in source.all(cst.Integer) if n.value == "2"]
    assert source.edited([(two, cst.Integer("3"))]) == text.replace("2", "3")


def test_a_statement_is_found_by_any_of_its_lines_and_a_header_without_its_body():
    source = Source("k.py", TEXT)
    assert tree.name_of(source.at(cst.Call, 13)[0]) == "copy"  # the second line of the call
    assert [tree.name_of(c) for c in source.at(cst.Call, 10)] == ["Kernel"]
    assert source.at(cst.Call, 2) == []


def follow(text: str, line: int, name: str) -> list[str]:
    sources = Sources({"k.py": text})
    source = sources.files["k.py"]
    (found,) = {n.value: n for n in source.at(cst.Name, line) if n.value == name}.values()
    return [where.code(node) for where, node in sources.origins(source, found)]


@pytest.mark.parametrize(
    ("line", "name", "origin"),
    [(10, "BLOCK", ["128"]), (9, "M", ["1024"]), (11, "rows", ["32"]), (11, "cols", ["16"])],
)
def test_a_name_is_followed_to_the_constant_behind_it(line, name, origin):
    text = TEXT.replace("    rows, cols = tile\n", "    rows, cols = 32, 16\n") if name in ("rows", "cols") else TEXT
    assert follow(text, line, name) == origin


def test_of_two_calls_both_arguments_are_origins_and_without_a_call_the_default_is():
    assert follow(TEXT + "other = factory(2048, 512)\n", 9, "M") == ["1024", "2048"]
    alone = TEXT.replace("kernel = factory(1024, 512, tile=(32, 16))\n", "")
    assert follow(alone.replace("    rows, cols = tile\n", "    rows = tile\n"), 7, "tile") == ["(64, 32)"]


def test_names_are_followed_into_another_file():
    module = "def make(size):\n    return size\n"
    sources = Sources({"m.py": module, "k.py": "from m import make\nN = 96\nk = make(N)\n"})
    (size,) = sources.files["m.py"].at(cst.Name, 2)
    assert [node.value for _, node in sources.origins(sources.files["m.py"], size)] == ["96"]


def test_a_file_that_is_no_python_is_left_out():
    assert list(Sources({"k.py": "def (:"})) == []


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.text("ab \t\f\u2028", max_size=4), min_size=1, max_size=8),
    st.integers(0, 7),
    st.booleans(),
    st.sampled_from(["\n", "\r\n"]),
)
def test_patch_makes_the_new_text_of_a_diff(tmp_path_factory, lines, at, last, ends):
    folder = tmp_path_factory.mktemp("diff")
    before = ends.join(lines) + (ends if last else "")
    changed = [*lines]
    changed[at % len(lines)] += "x"
    after = ends.join(changed) + (ends if last else "")
    path = str(folder / "k.py")
    Path(path).write_bytes(before.encode())
    diff = unified({path: before}, {path: after}, str(folder))
    done = subprocess.run(
        ["patch", "--binary", "-p0"], cwd=folder, input=diff.encode(), capture_output=True, check=False
    )
    assert (done.returncode, Path(path).read_bytes()) == (0, after.encode())


def test_several_edits_of_one_file_are_one_text():
    sources = Sources({"k.py": "f(a, b)\n"})
    a, b = (arg.value for arg in sources.files["k.py"].all(cst.Call)[0].args)
    assert sources.apply([Edit("k.py", a, b), Edit("k.py", b, a)]) == {"k.py": "f(b, a)\n"}
