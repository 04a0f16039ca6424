from __future__ import annotations

from dataclasses import replace

import pytest
from lint_kernels import FILE, branch, call, kernel, kinds, loop, only, store
from lint_kernels import region as part

from triage.model import Place, Statement

OUT = part("O", "write", (0, 511, 1))


def bind(text: str, line: int = 10) -> Statement:
    return Statement(text, "bind", Place(FILE, line), text)


def broken(
    extent: int | str = 512, *rest: Statement, divergent: bool | None = True, kind: str = "parallel"
) -> Statement:
    leave = branch("P[i] < 1", call("break_loop()", 14), divergent=divergent, line=13)
    return loop(kind, extent, leave, *rest)


def test_a_break_that_ends_one_threads_share() -> None:
    hazard = only(kernel([], broken(512, store(OUT))), "break-in-parallel")
    assert hazard.at == Place(FILE, 14) and hazard.labels[0].line == 13 and hazard.certainty == "likely"
    assert hazard.fields == {"extent": 512, "threads": 128, "condition": "P[i] < 1"}
    assert kinds(kernel([], loop("parallel", 8, broken(32, store(OUT))))) == ["break-in-parallel"]


@pytest.mark.parametrize(
    "statement",
    [
        broken(128, store(OUT)),  # a thread has one iteration: the break only skips the rest of it
        broken(512),  # a search that loses nothing
        broken(512, store(OUT), divergent=False),  # all threads leave together
        broken("n", store(OUT)),
        broken(512, store(OUT), kind="serial"),
        loop("parallel", 512, loop("serial", 4, branch("P[i] < 1", call("break_loop()"), divergent=True)), store(OUT)),
    ],
)
def test_breaks_that_do_what_they_say(statement: Statement) -> None:
    assert kinds(kernel([], statement)) == []


START = bind("state = 0.0", 9)
NEXT = bind("state = a[t] * state + 1.0", 11)


def test_a_value_that_every_iteration_reads_anew() -> None:
    hazard = only(kernel([], START, loop("serial", 8, NEXT)), "value-not-carried")
    assert hazard.at == Place(FILE, 11) and hazard.labels[0].line == 9 and hazard.certainty == "likely"
    assert hazard.fields == {"name": "state", "loop": "i", "extent": 8}
    assert kinds(kernel([], START, loop("pipelined", 8, branch("i > 1", NEXT)))) == ["value-not-carried"]


@pytest.mark.parametrize(
    "statements",
    [
        (loop("serial", 8, START, NEXT),),  # bound in the same iteration
        (START, NEXT),
        (START, loop("parallel", 8, NEXT)),  # no iteration comes after another
        (START, loop("serial", 1, NEXT)),
        (START, loop("serial", 8, replace(NEXT, via=(Place(FILE, 3),)))),  # the parameter of a macro
        (
            START,
            loop("serial", 8, bind("state = state[i] + estate + t.state + f(state=1)")),
        ),  # other things of that name
        (START, loop("serial", 8, bind("other = state + 1"))),
        (loop("serial", 4, START), loop("serial", 8, NEXT)),  # out of scope there
    ],
)
def test_names_that_mean_what_they_say(statements: tuple[Statement, ...]) -> None:
    assert kinds(kernel([], *statements)) == []
