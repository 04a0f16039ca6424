"""Exceptions become records with every frame, and the frames of tilelang's DSL name the user's true line."""

from __future__ import annotations

import pytest

from triage.model import ErrorRecord, from_json


@pytest.fixture
def recorded(harness, context, script):
    """Run a script that raises, and return the record of what it raised."""

    def run(text: str, **names) -> ErrorRecord:
        with pytest.raises(BaseException) as caught:
            script(text, **names)
        error = caught.value
        error.__traceback__ = error.__traceback__.tb_next.tb_next  # this function and `script`
        return from_json(ErrorRecord, harness("errors").record(error, context, None, None, False))

    return run


def user_lines(record: ErrorRecord) -> list[int]:
    return [frame.line for frame in record.frames if frame.user]


def test_the_chain_is_nearest_first(recorded):
    record = recorded(
        """
        try:
            try:
                {}["a"]
            except KeyError as error:
                raise ValueError("inner") from error
        except ValueError:
            raise RuntimeError("outer")
        """
    )
    assert (record.type, record.message) == ("RuntimeError", "outer")
    assert [(cause.type, cause.message) for cause in record.causes] == [("ValueError", "inner"), ("KeyError", "'a'")]
    assert [cause.relation for cause in record.causes] == ["context", "cause"]
    assert [user_lines(cause) for cause in record.causes] == [[6], [4]]


def test_a_suppressed_context_is_no_cause(recorded):
    record = recorded("try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('x') from None\n")
    assert record.causes == ()


def test_a_cycle_of_causes_ends(recorded):
    record = recorded("a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a\n")
    assert [cause.message for cause in record.causes] == ["b"]


def test_members_of_a_group_are_causes(recorded):
    record = recorded("raise ExceptionGroup('both', [KeyError('k'), TypeError('t')])\n")
    assert [(cause.type, cause.relation) for cause in record.causes] == [("KeyError", "group"), ("TypeError", "group")]


def test_a_failing_str_is_told(recorded):
    record = recorded("class E(Exception):\n    def __str__(self):\n        raise OSError('no')\nraise E()\n")
    assert record.message == "<exception str() failed: OSError>"


def test_columns_count_characters_from_one(recorded):
    record = recorded("x = 0\ny = 'äöü', 1 / x\n")
    assert (record.frames[-1].column, record.frames[-1].end_column) == (12, 17)


def test_deep_recursion_keeps_both_ends(recorded, harness):
    record = recorded("def f(n):\n    return f(n + 1)\nf(0)\n")
    assert record.type == "RecursionError"
    assert len(record.frames) <= harness("errors").MAX_FRAMES
    assert record.frames[0].line == 3


def test_the_phase_comes_from_the_frames(recorded):
    assert recorded("import no_such_package_anywhere\n").phase == "import"
    assert recorded("raise ValueError('mine')\n").phase is None


def test_frames_of_the_library_are_not_the_users(recorded):
    record = recorded("import json\njson.loads('{')\n")
    assert [frame.user for frame in record.frames] == [True] + [False] * (len(record.frames) - 1)
    assert len(record.frames) > 1


def test_an_error_the_harness_raises_for_the_user_stands_at_the_users_call(harness, context, script):
    """As where the virtual device refuses an argument: the frames of the harness itself are left out."""

    def refuse():
        harness("expressions").evaluate(object(), {})

    def seen_by_the_harness():
        try:
            refuse()
        except harness("expressions").Unknown as error:
            told.append(harness("errors").record(error, context, "call", "k1", True))

    told: list[dict] = []
    seen_by_the_harness.__code__ = in_harness(harness, seen_by_the_harness)
    refuse.__code__ = in_harness(harness, refuse)
    script("x = 1\n\ncall()\n", call=seen_by_the_harness)
    (record,) = told
    frames = [frame for frame in record["frames"] if frame["user"] and "user1.py" in frame["file"]]
    assert [frame["line"] for frame in frames] == [3]
    assert record["frames"][-1] == frames[-1]


def in_harness(harness, function):
    """The code of a function as if it stood in a file of the harness."""
    return function.__code__.replace(co_filename=harness("errors").__file__)


KERNEL = """
    import tilelang
    import tilelang.language as T

    @T.macro
    def inner(X, Y, b):
        for i in T.Parallel(64):
            Y[b * 64 + i] = {macro}

    @T.prim_func
    def main(A: T.Tensor((1024,), "float32"), B: T.Tensor((1024,), "float32")):
        with T.Kernel(
            {grid},
            threads=64,
        ) as bx:
            s = T.alloc_shared((64,), "float32")
            for k in T.Pipelined(4, num_stages={stages}):
                T.copy(A[bx * 64], s)
            for i in T.serial({extent}):
                s[i] = 0.0
            {call}
            T.copy(
                s,
                {copy},
            )
"""
GOOD = {
    "grid": "16",
    "macro": "X[b * 64 + i]",
    "stages": "2",
    "extent": "4",
    "call": "inner(A, B, bx)",
    "copy": "B[bx * 64]",
}


@pytest.mark.tilelang
@pytest.mark.parametrize(
    ("change", "lines"),
    [
        ({"stages": '"two"'}, [10, 17]),  # a loop header: the code object says the line of something else
        ({"stages": "undefined"}, [10, 17]),
        ({"extent": "'x'"}, [10, 19]),
        ({"macro": "X[b * 64 + i, 0]"}, [10, 21, 8]),  # through a macro: its call, then its body
        ({"macro": "undefined[i]"}, [10, 21, 8]),
        ({"extent": "sum([undefined for _ in range(2)])"}, [10, 19, 19]),  # in a comprehension of its own frame
        ({"call": "inner(A, B)"}, [10, 21]),  # the macro is entered and its body never runs
        ({"extent": "2.5"}, [10, 19]),  # the error arises when the loop ends, after its body was built
        ({"grid": "1.5"}, [10, 12]),  # the same where the kernel ends
        ({"copy": "undefined"}, [10, 24]),  # inside a statement over several lines
    ],
)
def test_a_dsl_frame_names_the_statement(recorded, change, lines):
    record = recorded(KERNEL.format(**GOOD | change))
    assert user_lines(record) == lines
    assert record.phase == "build"


@pytest.mark.tilelang
@pytest.mark.parametrize("deep", [False, True])
def test_columns_of_a_kernel_are_those_of_the_file(recorded, deep):
    kernel = """
@T.prim_func
def main(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64) as bx:
        s = T.no_such_name((64,), "float32")
"""
    if deep:  # the builder takes the indentation of an inner function away
        kernel = "def make():" + kernel.replace("\n", "\n        ") + "\nmake()\n"
    record = recorded("import tilelang.language as T\n" + kernel)
    frame = record.frames[-1]
    source = "        s = T.no_such_name((64,)" if not deep else "                s = T.no_such_name((64,)"
    assert source[frame.column - 1 : frame.end_column - 1] == "T.no_such_name"


@pytest.mark.tilelang
def test_the_kernel_without_a_fault_builds(script):
    assert script(KERNEL.format(**GOOD))["main"] is not None


@pytest.mark.tilelang
def test_frames_of_cxx_are_kept(recorded):
    record = recorded(
        """
        import tilelang.language as T

        @T.prim_func
        def main(A: T.Tensor((64,), "float32")):
            with T.Kernel(1, threads=64) as bx:
                A[0, 0] = 1.0
        """
    )
    cxx = [frame for frame in record.frames if frame.lang == "cxx"]
    assert cxx and all(frame.user is False for frame in cxx)
    assert any(frame.file.endswith(".cc") and frame.line > 0 and "BufferStore" in frame.function for frame in cxx)
    assert user_lines(record)[-1] == 7
