from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triage.experiment.source import bare, opened, pieces, without

KERNELS = sorted((Path(__file__).resolve().parents[2] / "fixtures" / "kernels").glob("*.py"))


def cut(source: str, *lines: int) -> str:
    return without(source, [piece for piece in pieces(source) if piece.start in lines])


def test_a_cut_takes_whole_statements_with_their_decorators() -> None:
    source = "a = 1\n@jit(\n    x=1)\ndef f():\n    b = (2,\n         3)\n    return b\nprint(a)\n"
    assert cut(source, 2) == "a = 1\nprint(a)\n"
    assert cut(source, 5) == "a = 1\n@jit(\n    x=1)\ndef f():\n    return b\nprint(a)\n"


def test_an_empty_body_gets_a_pass_but_not_one_that_goes_with_its_head() -> None:
    source = "if a:\n    b = 1\n    c = 2\nelse:\n    d = 3\n"
    assert cut(source, 2, 3) == "if a:\n    pass\nelse:\n    d = 3\n"
    assert cut(source, 1, 2, 3) == ""


def test_the_head_of_an_elif_stays_with_its_if() -> None:
    source = "if a:\n    b = 1\nelif c:\n    d = 2\nelse:\n    e = 3\n"
    assert [piece.start for piece in pieces(source)] == [1, 2, 4, 6]
    assert cut(source, 4) == "if a:\n    b = 1\nelif c:\n    pass\nelse:\n    e = 3\n"


def test_statements_on_one_line_are_one_piece() -> None:
    assert [(p.start, p.end, p.open) for p in pieces("a = 1; b = 2\nif a: b = 3\n")] == [(1, 1, False), (2, 2, False)]


@pytest.mark.parametrize(
    "statement",
    [
        "if os.path.exists(p):\n    shutil.rmtree(p)\n",
        "def clean(p):\n    if p.startswith('/tmp'):\n        rm(p)\n",
        "with open('x', 'w') as f:\n    f.write('1')\n",
        "if ready:\n    torch.save(x, 'x.pt')\n",
        "for h in hosts:\n    subprocess.run(['ping', h])\n",
    ],
)
def test_what_acts_on_files_and_processes_is_never_cut_inside(statement: str) -> None:
    source = "import os, shutil, subprocess\nfrom os import remove as rm\n" + statement
    assert [piece.open for piece in pieces(source) if piece.start == 3] == [False]
    assert all(piece.start <= 3 for piece in pieces(source))


def test_reading_the_environment_is_no_act() -> None:
    source = "import os\nif os.environ.get('A'):\n    x = os.path.join('a', 'b')\n"
    assert [piece.start for piece in pieces(source)] == [1, 2, 3]


def test_a_wrapper_is_replaced_by_its_body() -> None:
    source = "with a:\n    for i in b:\n        c(i)\nd = 1\n"
    outer, inner = pieces(source)[:2]
    assert opened(source, outer) == "for i in b:\n    c(i)\nd = 1\n"
    assert opened(source, inner) == "with a:\n    c(i)\nd = 1\n"
    assert opened("def f():\n    a = 1\n", pieces("def f():\n    a = 1\n")[0]) is None


def test_what_only_readers_see_goes() -> None:
    source = '"""Doc."""\n\n# note\nx = """kept\n\n# kept"""  # gone\n\n\ndef f():\n    """Doc."""\n    return x\n'
    assert bare(source) == 'x = """kept\n\n# kept"""\ndef f():\n    return x\n'


@given(st.sampled_from(KERNELS), st.data())
@settings(max_examples=60, deadline=None)
def test_any_cut_of_a_real_script_parses_and_adds_nothing(path: Path, data: st.DataObject) -> None:
    source = path.read_text(encoding="utf-8")
    found = pieces(source)
    text = without(source, data.draw(st.lists(st.sampled_from(found), max_size=12)))
    ast.parse(text)
    assert {line.strip() for line in text.splitlines()} <= {*(line.strip() for line in source.splitlines()), "pass"}


@given(st.sampled_from(KERNELS))
@settings(max_examples=60, deadline=None)
def test_a_bare_script_is_the_same_program(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    text = bare(source)
    assert ast.dump(ast.parse(bare(text))) == ast.dump(ast.parse(text))
    plain = [node for node in ast.walk(ast.parse(source)) if not isinstance(node, (ast.Expr, ast.Constant))]
    assert len([n for n in ast.walk(ast.parse(text)) if not isinstance(n, (ast.Expr, ast.Constant))]) == len(plain)
