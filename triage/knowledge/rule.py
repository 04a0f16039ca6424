"""What a rule is, as plain data: the schema of `rules/<category>/<CODE>-<name>.toml`.

    code, name, title, category, stage, owner                    # required
    level = "fault" | "advice"                                   # default fault
    confidence = "confirmed" | "likely" | "possible"             # the most this rule may claim; default confirmed
    checked_with = ["0.1.15"]                                    # tilelang versions it was checked against
    explains = ["TLG001"]                                        # codes whose findings about the same thing fold into this one

    [match]    on, text, line, when, unless, raised_in, same_fault       # `on` required; `text` and `line` are regular expressions
    [claim]    says (required), look_at, place, argument
    [fix]      steps (required), strategy                        # a name, or a list of them in the order to try
    [why]      text (required), references
    [example]  wrong, right
    [check]    steps

What upstream knows of the same fault, with releases, stands in `reference/upstream.toml`.

A key that is not listed here is an error. `text` is searched in the record's text, `line` in the line of the user's source at
which Python raised: for texts that say nothing of themselves. `raised_in` entries are path suffixes of the raising frame
(`tilelang/language/gemm_op.py`), with its function where only that tells two rules apart
(`tilelang/jit/__init__.py:get_tir`; unseen it is no match), C++ scopes (`tvm::tl::GemmNode`), or the word `user`:
Python itself raised in the user's own line (never the user's own `raise`). `place` says which place of the user's source the finding points at:

    frame      the deepest user frame; default of `FRAME_STAGES`, in which Python runs the user's lines
    argument   the keyword `argument`, in the call of that frame, around it, or in the decorator of what is called
    assigned   the last assignment to the variable `argument` in a block that ended above that frame's line
    launch     the `with T.Kernel(…)` of that frame's function
    decorator  the decorator of the function called there
    return     the last `return` of the function called there, or its `def` line if it can end without one
    call       the call at the deepest user frame
    text       the line of the user's source, string literals included, that names `argument` (an identifier or a file
               that the error names; comments and docstrings name nothing): one that the error text names, else the only
               one. In the stage `dsl`, of several: the deepest user frame if it names it, else the only one in the
               functions of the user's frames, else the only one where it is the default of a parameter or a constant
               assigned to a variable; and of none or still several, the deepest user frame. In the other stages that
               is no place. A place that experiments found counts only if its statement names it, too
    environment  the only line of the user's source that sets one of the environment variables `argument` (names
               separated by spaces), if the value it sets, where it is written there, is part of the error text
    named      the line which the error text itself names; default of `NAMED_STAGES`, where it comes from `#line`.
               A `--> file:line` of other stages often names a declaration nearby: say `named` only if it never does
    none       no place: an experiment, or nobody, can tell it; default of the other stages
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from triage.conditions import Condition
from triage.knowledge.files import KnowledgeError

if TYPE_CHECKING:
    from triage.knowledge.near import NearRules
    from triage.knowledge.scan import Scanner

ON = ("error", "warning", "log", "op", "kernel", "hazard", "source", "metric", "mismatch")
LEVELS = ("fault", "advice")
PLACES = (
    "frame", "argument", "assigned", "launch", "decorator", "return", "call", "text", "environment", "named", "none"
)  # fmt: skip
#: Places that are about something named: `argument` says what, a name or the placeholder of a capture.
NAMING_PLACES = ("argument", "assigned", "text", "environment")
#: Stages in which the deepest user frame is the line that went wrong: Python is executing the user's own statements.
#: In the others it is only the call that started a compile, which must not be blamed.
FRAME_STAGES = frozenset({"install", "import", "target", "dsl", "compile", "call"})
#: Stages whose errors carry the user's line through `#line` directives, where they were emitted.
NAMED_STAGES = frozenset({"codegen", "device-compile"})
DEFAULT_CHECKED_WITH = ("0.1.15",)


def default_place(stage: str) -> str:
    """The place a rule of `stage` points at if it does not say."""
    return "frame" if stage in FRAME_STAGES else "named" if stage in NAMED_STAGES else "none"


@dataclass(frozen=True)
class Match:
    on: str
    text: str | None = None
    line: str | None = None
    when: tuple[Condition, ...] = ()
    #: conditions that rule a match out where one is known to hold; an unknown one rules out nothing
    unless: tuple[Condition, ...] = ()
    raised_in: tuple[str, ...] = ()
    #: conditions over the captures that stay true while a reducer changes shapes: what makes it the same fault
    same_fault: tuple[Condition, ...] = ()


@dataclass(frozen=True)
class Claim:
    says: str
    look_at: str = ""
    place: str = "frame"
    argument: str | None = None


@dataclass(frozen=True)
class RuleFix:
    steps: tuple[str, ...]
    #: the names of repairs that triage can try and verify (`triage/fixes/strategies.py`), in the order to try them
    strategies: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    code: str
    name: str
    title: str
    category: str
    stage: str
    owner: str
    match: Match
    claim: Claim
    fix: RuleFix
    why: str
    level: str = "fault"
    confidence: str = "confirmed"
    checked_with: tuple[str, ...] = DEFAULT_CHECKED_WITH
    explains: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    wrong: str | None = None
    right: str | None = None
    check_steps: tuple[str, ...] = ()
    path: Path | None = field(default=None, compare=False)

    @property
    def fixtures(self) -> Path | None:
        """The folder beside the rule file that holds its `hit-*` and `miss-*` fixtures."""
        return self.path.with_suffix("") if self.path else None


@dataclass(frozen=True)
class RuleSet:
    """All rules in the order of their codes."""

    rules: tuple[Rule, ...] = ()
    root: Path | None = None

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)

    @cached_property
    def _by_code(self) -> dict[str, Rule]:
        return {rule.code: rule for rule in self.rules}

    @cached_property
    def _by_kind(self) -> dict[str, tuple[Rule, ...]]:
        return {kind: tuple(rule for rule in self.rules if rule.match.on == kind) for kind in ON}

    def get(self, code: str) -> Rule | None:
        return self._by_code.get(code)

    def on(self, kind: str) -> tuple[Rule, ...]:
        """The rules that read this kind of record; none for a kind that no rule can read."""
        return self._by_kind.get(kind, ())

    def possible(self, kind: str, text: str | None) -> tuple[Rule, ...]:
        """The rules of `on(kind)` without those whose `match.text` is not in a record's text, as far as a glance tells."""
        codes = self.scanner.possible(text) if text is not None else frozenset()
        return tuple(rule for rule in self.on(kind) if not rule.match.text or rule.code in codes)

    @cached_property
    def scanner(self) -> Scanner:
        """All rules as one search, made when it is first asked for."""
        from triage.knowledge.scan import Scanner  # it is made of rules, so it is the one that imports

        return Scanner(self.rules)

    @cached_property
    def near(self) -> NearRules:
        """The words of all rules, made ready for texts that none fits when it is first asked for."""
        from triage.knowledge.near import NearRules  # as above

        return NearRules(self.rules)


@dataclass(frozen=True)
class Problem:
    """Something wrong in a rule file; `line` counts from 1, None where no line can be named."""

    file: str
    line: int | None
    message: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.message}" if self.line else f"{self.file}: {self.message}"


class RuleErrors(KnowledgeError):
    """Every problem found while loading the rules."""

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        super().__init__("\n".join(map(str, problems)))
