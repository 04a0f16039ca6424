from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rule_samples import RULE, read_log, rule_file
from test_check import OWN, TRACE, fixture, root

from triage.knowledge.check import check_rules
from triage.knowledge.match import compiled
from triage.knowledge.mutate import mutate_rules, show_mutated, weaker
from triage.knowledge.sites import Site

__all__ = ["root"]
WHEN = 'when = ["error.type == ValueError"]\nraised_in'


def survivors(root: Path) -> tuple[str, ...]:
    (found,) = mutate_rules(read_log, root, ["TLG901"])
    return tuple(survivor.lost for survivor in found.survivors)


@pytest.mark.parametrize(
    ("pattern", "lost"),
    [
        (r"^tile of (?P<n>\w+)\b", ["the anchor ^", "the words 'tile of '", r"the class \w", r"the anchor \b"]),
        (r"K = \d+", [r"the class \d"]),
        (r"inputs?, got [^\n]+ here", ["the words 'input'", "the words ', got '", "the words ' here'"]),
        (r"(?:left|right) side", ["the words 'left'", "the words 'right'", "the words ' side'"]),
        (
            r"no \[x\]: (?!bad (?:a|b))\S{1,3} (?<=y)",
            [
                "the words 'no \\\\[x\\\\]: '",
                "the look around (?!bad (?:a|b))",
                r"the class \S",
                "the look around (?<=y)",
            ],
        ),
        (r"[^]a]{2}", ["the class [^]a]"]),
    ],
)
def test_an_expression_loses_one_thing_at_a_time(pattern: str, lost: list[str]) -> None:
    found = list(weaker(pattern))
    assert [what for what, _ in found] == lost
    for _, weak in found:
        compiled(weak)


def test_what_a_near_miss_tells_apart_is_caught(root: Path) -> None:
    rule_file(root, RULE.replace("raised_in", WHEN))
    before = survivors(root)
    assert "`error.type == ValueError`" in before and "the words 'tile of ' in text" in before
    assert "raised_in" not in before  # the words of a hit out of another library are always tried
    fixture(root, "miss-strip.log", TRACE.replace("tile of", "strip of"))
    fixture(root, "miss-type.log", TRACE.replace("ValueError:", "TypeError:"))
    after = survivors(root)
    assert set(before) - set(after) == {"`error.type == ValueError`", "the words 'tile of ' in text"}
    assert check_rules(read_log, root).problems == []


def test_the_hits_of_another_rule_count_as_well(root: Path) -> None:
    other = RULE.replace("TLG901", "TLG902").replace("tile-too-wide", "strip").replace("tile of", "strip of")
    rule_file(root, other, "TLG902-strip")
    fixture(root, "hit-strip.log", TRACE.replace("tile of", "strip of"), "TLG902-strip")
    fixture(root, "miss-own.log", OWN, "TLG902-strip")
    assert "the words 'tile of ' in text" not in survivors(root)
    rule_file(root, 'explains = ["TLG902"]\n' + RULE)  # then both may match
    assert "the words 'tile of ' in text" in survivors(root)


def test_two_runs_say_the_same(root: Path) -> None:
    runs: list[Callable[[], str]] = [lambda: show_mutated(mutate_rules(read_log, root))] * 2
    first, second = (run() for run in runs)
    assert first == second
    assert first.splitlines()[-1] == (
        "1 rules, 7 mutants: fixtures catch 1, 0 more take another error of upstream, 6 take none that is known; "
        "1 rules need no further near miss"
    )


def test_a_mutant_that_takes_another_error_of_upstream_is_named_with_it(root: Path) -> None:
    def site(message: str, line: int, file: str = "tilelang/tile.py") -> Site:
        return Site(file, line, "make_tile", "ValueError", None, message, "dsl", None, True, "common")

    sites = [
        site("tile of {name} is {width} wide, at most {most}", 83),
        site("strip of {name} is {width} wide, at most {most}", 85, "tilelang/strip.py"),
        site("strip of {name} is {width} wide, at most {most}", 90),
    ]
    (found,) = mutate_rules(read_log, root, sites=sites)
    takes = {survivor.lost: survivor.takes for survivor in found.survivors if survivor.takes}
    assert takes == {"the words 'tile of ' in text": sites[2]}
    shown = show_mutated([found])
    assert "nobody misses the words 'tile of ' in text, and would take tilelang/tile.py:90 'strip of" in shown
    assert shown.endswith(
        "1 more take another error of upstream, 5 take none that is known; 0 rules need no further near miss\n"
    )


def test_a_code_without_a_rule_is_refused(root: Path) -> None:
    with pytest.raises(KeyError, match="TLG999"):
        mutate_rules(read_log, root, ["TLG999"])
