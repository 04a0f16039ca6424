from __future__ import annotations

import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.knowledge.place import (
    Spot,
    find_argument,
    find_call,
    find_decorator,
    find_inner_assignment,
    find_launch,
    find_only_argument,
    find_return,
    lines_of_function,
    lines_that_name_constant,
    spans,
)


def place_of(source: str, argument: str) -> tuple[str, str] | None:
    """Where `argument` of the call on the line marked `# HERE` is: the line, and the rest of it from the column on."""
    source = textwrap.dedent(source)
    lines = source.splitlines()
    here = next(n for n, line in enumerate(lines, 1) if "# HERE" in line)
    spot = find_argument(source, here, argument)
    return (lines[spot.line - 1].strip(), lines[spot.line - 1][spot.column - 1 :]) if spot else None


@pytest.mark.parametrize(
    ("source", "rest"),
    [
        ("k = tilelang.compile(main, out_idx=[3])  # HERE", "out_idx=[3])  # HERE"),
        ("k = tilelang.compile(\n    main,\n    out_idx=[3],\n)  # HERE", "out_idx=[3],"),
        ("k = wrap(\n    tilelang.compile(main, out_idx=[3]))  # HERE", "out_idx=[3]))  # HERE"),
        ("cfg = {'out_idx': [3]}\nk = tilelang.compile(main, **cfg)  # HERE", "'out_idx': [3]}"),
        ("cfg = dict(out_idx=[3])\nk = tilelang.compile(main, **cfg)  # HERE", "out_idx=[3])"),
        ("cfg = {}\ncfg['out_idx'] = [3]\nk = tilelang.compile(main, **cfg)  # HERE", "cfg['out_idx'] = [3]"),
        ("base = {'out_idx': [3]}\ncfg = {**base, 'x': 1}\nk = f(**cfg)  # HERE", "'out_idx': [3]}"),
        ("k = f(**{'out_idx': [3]})  # HERE", "'out_idx': [3]})  # HERE"),
        ("@jit(out_idx=[3])\ndef make(n): ...\nk = make(4)  # HERE", "out_idx=[3])"),
        ("class A:\n    @jit(out_idx=[3])\n    def make(self): ...\nk = A().make()  # HERE", "out_idx=[3])"),
        ("make = jit(out_idx=[3])(body)\nk = make(4)  # HERE", "out_idx=[3])(body)"),
        ("k = compile(main, out_idx=[3])\nk(a, b)  # HERE", "out_idx=[3])"),
        ("@jit(out_idx=[3])\ndef make(n): ...\nk = make(4)\nk(a)  # HERE", "out_idx=[3])"),
        (
            "@jit(out_idx=[3])\ndef make(n):\n    @T.prim_func\n    def main(A): ...\n    return check(main)  # HERE",
            "out_idx=[3])",
        ),
        ("def go():\n    k = compile(m, out_idx=[3])\n    k(a)  # HERE\nk = compile(m, out_idx=[9])", "out_idx=[3])"),
    ],
)
def test_an_argument_is_found_where_it_was_written(source: str, rest: str) -> None:
    found = place_of(source, "out_idx")
    assert found and found[1] == rest


@pytest.mark.parametrize(
    "source",
    [
        "k = tilelang.compile(main)  # HERE",
        "k = compile(main, **load())  # HERE",
        "x = 1  # HERE",
        "cfg = cfg\nk = f(**cfg)  # HERE",
        "cfg = {**cfg}\nk = f(**cfg)  # HERE",
        "k = k(1)\nk(2)  # HERE",
        "def broken(:  # HERE",
        "class A:\n    @jit(out_idx=[1])\n    def f(self): ...\nclass B:\n    @jit(out_idx=[2])\n    def f(self): ...\nB().f()  # HERE",
        "def other():\n    k = compile(m, out_idx=[3])\nk(a)  # HERE",
    ],
)
def test_what_was_not_written_is_not_found(source: str) -> None:
    assert place_of(source, "out_idx") is None


def test_the_nearest_assignment_before_the_line_counts() -> None:
    source = "cfg = {'a': 1}\nf(**cfg)  # HERE\ncfg = {'a': 2}\n"
    assert place_of(source, "a") == ("cfg = {'a': 1}", "'a': 1}")


def test_a_position_counts_from_zero_and_stops_at_a_star() -> None:
    assert place_of("T.copy(A[0], s)  # HERE", "1") == ("T.copy(A[0], s)  # HERE", "s)  # HERE")
    assert place_of("T.copy(*both, s)  # HERE", "1") is None
    assert place_of("T.copy(A)  # HERE", "4") is None


SOURCE = textwrap.dedent(
    """\
    import tilelang

    @tilelang.jit(
        out_idx=[1],
    )
    def make(n):
        @T.prim_func
        def main(A):
            with T.Kernel(n, threads=128) as bx:
                T.copy(
                    A, B)
        return main

    kernel = make(8)
    """
)


def test_decorator_launch_and_call() -> None:
    assert find_decorator(SOURCE, 14) == Spot(3, 2, "make")
    assert find_launch(SOURCE, 10) == find_launch(SOURCE, 14) == Spot(9, 14, "main")
    assert find_call(SOURCE, 11) == Spot(10, 13, "main")
    assert find_call(SOURCE, 12) is None and find_launch("x = 1", 1) is None


TWO_FACTORIES = textwrap.dedent(
    """\
    @jit(out_idx=[1])
    def first(n):
        with T.Kernel(n):
            return f

    @jit(out_idx=[2])
    def second(n):
        with T.Kernel(n):
            pass
    ü = first(8); pair = ü, compile(second(8)), first(4)
    """
)


def columns_of(text: str) -> tuple[int, int]:
    """The columns, in characters, of a text in the last line of `TWO_FACTORIES`."""
    start = TWO_FACTORIES.splitlines()[-1].index(text) + 1
    return start, start + len(text)


@pytest.mark.parametrize(
    ("text", "returns", "decorator", "launch", "argument"),
    [
        ("first(8)", 4, 1, 3, 1),
        ("second(8)", 7, 6, 8, 6),
        ("compile(second(8))", 7, 6, 8, None),
        ("first(4)", 4, 1, 3, 1),
    ],
)
def test_of_two_calls_in_a_line_the_columns_tell_which_failed(text, returns, decorator, launch, argument) -> None:
    columns = columns_of(text)
    assert find_return(TWO_FACTORIES, 10, columns).line == returns
    assert find_decorator(TWO_FACTORIES, 10, columns).line == decorator
    assert find_launch(TWO_FACTORIES, 10, columns).line == launch
    found = find_argument(TWO_FACTORIES, 10, "out_idx", columns)
    assert (found and found.line) == argument
    rest = TWO_FACTORIES.splitlines()[9].encode()[find_call(TWO_FACTORIES, 10, columns).column - 1 :].decode()
    assert rest.startswith(text)


@pytest.mark.parametrize("columns", [None, (1, 2), (3, 9), (500, 501)])
def test_of_two_calls_in_a_line_none_is_chosen_without_columns_of_one(columns) -> None:
    for find in (find_return, find_decorator, find_launch, find_call):
        assert find(TWO_FACTORIES, 10, columns) is None
    assert find_argument(TWO_FACTORIES, 10, "out_idx", columns) is None


def test_a_return_or_the_function_that_has_none() -> None:
    assert find_return(SOURCE, 14) == Spot(12, 5, "make") and find_return(SOURCE, 12) is None
    missing = SOURCE.replace("    return main\n", "    # nothing\n")
    assert find_return(missing, 14) == Spot(6, 1, "make")
    assert find_return("def f(): ...\ndef f(): ...\nf()\n", 3) is None


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("if a:\n  return 1", 1),
        ("if a:\n  return 1\n else:\n  return 2", 5),
        ("if a:\n  return 1\n raise E", 3),
        ("with a:\n  return 1", 3),
        ("for a in b:\n  return 1", 1),
        ("while True:\n  return 1", 3),
        ("try:\n  return 1\n except E:\n  pass", 1),
        ("try:\n  return 1\n except E:\n  raise", 3),
        ("def g():\n  return 1", 1),
        ("return 1", 2),
    ],
)
def test_a_function_that_can_end_without_a_return_is_told_itself(body: str, line: int) -> None:
    source = f"def f():\n {body}\nf()\n"
    found = find_return(source, source.count("\n"))
    assert found is not None and found.line == line


def test_a_function_of_a_module_is_not_the_method_of_its_name() -> None:
    source = textwrap.dedent(
        """\
        import tilelang
        class A:
            def program(self):
                pass
            def compile(self):
                return tilelang.compile(self.program())
        """
    )
    assert find_return(source, 6) == Spot(3, 5, "program")
    variable = source.replace(
        "tilelang.compile(self.program())", "1\n        p = A().program()\n        tilelang.compile(p)"
    )
    assert find_return(variable, 8) == Spot(3, 5, "program")


def test_an_assignment_in_a_block_that_ended() -> None:
    source = textwrap.dedent(
        """\
        def main(A):
            with T.Kernel(8) as bx:
                x = A[0]
                if bx > 2:
                    x = A[1]
                A[bx] = x
                for x in T.serial(3):
                    A[x] = x
        """
    )
    assert find_inner_assignment(source, 6, "x") == Spot(5, 13, "main")
    assert find_inner_assignment(source, 5, "x") is None and find_inner_assignment(source, 6, "y") is None
    assert find_inner_assignment(source, 99, "x") is None and find_inner_assignment("x = 1", 1, "x") is None


def test_an_argument_without_a_line_must_be_the_only_one() -> None:
    source = "def main():\n    for k in T.Pipelined(4, num_stages=n):\n        pass\n"
    assert find_only_argument(source, 1, "main", "num_stages") == Spot(2, 29, "main")
    assert find_only_argument(source + "    T.Pipelined(2, num_stages=1)\n", 1, "main", "num_stages") is None
    assert find_only_argument("@T.prim_func\n" + source, 1, "<module>", "num_stages") == Spot(3, 29, "main")
    assert find_only_argument(source, 1, "other", "num_stages") is None
    assert find_only_argument(source * 2, 1, "main", "num_stages") is None


def test_a_function_spans_its_decorators_and_its_body() -> None:
    assert [spans(SOURCE, "main", line) for line in (6, 7, 11, 12)] == [False, True, True, False]
    assert spans(SOURCE, "<module>", 1) is None and spans("def (", "f", 1) is None


def test_the_lines_of_the_function_that_was_running() -> None:
    assert lines_of_function(SOURCE, "main", 11) == range(7, 12)
    for line in (3, 7, 12):  # a factory runs the decorator of the kernel in it
        assert lines_of_function(SOURCE, "make", line) == range(3, 13)
    assert lines_of_function(SOURCE, "main", 14) is None and lines_of_function("def f(:", "f", 1) is None


def test_a_constant_is_named_by_a_default_or_an_assignment() -> None:
    source = (
        "kind = 'fp'\ndef f(a, b='fp', *, c='fp32',\n      d='fp'):\n    g('fp')\n    x: str = 'fp'\n    y = k['fp']\n"
    )
    assert lines_that_name_constant(source, "fp") == [1, 2, 3, 5]
    assert lines_that_name_constant("def f(:", "fp") == []


@given(st.text(max_size=300), st.integers(-5, 40), st.text(max_size=8))
def test_any_text_is_taken(source: str, line: int, argument: str) -> None:
    for spot in (find_argument(source, line, argument), find_call(source, line), find_decorator(source, line)):
        assert spot is None or spot.line >= 1


lines = st.sampled_from(SOURCE.splitlines())


@given(st.lists(lines, max_size=20), st.integers(1, 20), st.sampled_from(["out_idx", "threads", "0"]))
def test_a_spot_lies_in_the_source_that_was_given(some: list[str], line: int, argument: str) -> None:
    source = "\n".join(some)
    spot = find_argument(source, line, argument)
    assert spot is None or source.splitlines()[spot.line - 1][spot.column - 1 :]
