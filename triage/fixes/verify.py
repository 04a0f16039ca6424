"""Try proposals on a copy of the script, and decide which of them, if any, may be called verified.

start      the script as it is must show the fault of the finding
try        each proposal: the script with it must show no fault at all, and build what was attempted before
doubt      what the patched kernels do that healthy ones do not (`meaning.py`) speaks against a patch
decide     of those with the fewest doubts, one is chosen only if all of them are the same program, differ in tuning
           alone, or one is nearer to what is written; otherwise several are shown, and none is called the fix
confirm    the chosen one once more with the device compiler
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from triage.fixes.meaning import Doubt, changed_interface, doubts, program, uses_thread_index
from triage.fixes.proposal import Proposal
from triage.fixes.tree import Sources, names_in, own_parts, unified
from triage.fixes.trial import Seen, Trials, missing
from triage.model import STAGES, Finding, Fix

#: candidates that are tried for one fault
MOST = 12
#: candidates shown where none is chosen
SHOWN = 3


@dataclass(frozen=True)
class Tried:
    """A proposal, the changed texts of the files, what it showed, and the doubts about what it touches."""

    proposal: Proposal
    texts: Mapping[str, str]
    patch: str
    seen: Seen
    doubts: tuple[Doubt, ...] = ()
    all_doubts: int = 0

    @property
    def meaning(self) -> tuple[object, ...]:
        kernels = tuple(program(record) for record in self.seen.records)
        return (*kernels, self.patch) if self.proposal.host else kernels


@dataclass(frozen=True)
class Outcome:
    """What came of all candidates. `chosen`: the one verified fix. `why`: why there is none."""

    chosen: Tried | None = None
    passing: tuple[Tried, ...] = ()
    further: tuple[Tried, ...] = ()
    count: int = 0
    why: str = ""


def verify(
    proposals: Iterable[Proposal],
    sources: Sources,
    before: Mapping[str, str],
    finding: Finding,
    start: Seen,
    trials: Trials,
    *,
    root: str,
    compile: bool,
    left: Callable[[], float],
    progress: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Try `proposals` in their order while time is `left`; `start` is what the unchanged script shows, with the device
    compiler or without (`compile`). Raises `TemplateError`."""
    tried: list[Tried] = []
    known: set[str] = {_key(before)}
    tuned, untried = False, False
    for proposal in proposals:
        texts = {**before, **sources.apply(proposal.edits)}
        if _key(texts) in known or (tuned and proposal.tuning):
            continue
        if len(tried) == MOST or left() <= 0:
            untried = True
            break
        known.add(_key(texts))
        progress(f"trying on a changed copy: {proposal.title}")
        seen = trials.run(texts, compile)
        patch = unified(before, {p: t for p, t in texts.items() if t != before[p]}, root)
        tried.append(_doubted(Tried(proposal, texts, patch, seen), sources, start))
        untried = untried or bool(seen.broken and not proposal.guess)
        tuned = tuned or (proposal.tuning and seen.healthy)  # another tuning would mean the same
    passing = [t for t in tried if t.seen.healthy and _as_much(start, t.seen)]
    further = tuple(t for t in tried if t not in passing and _further(finding, start, t.seen))
    ranked = sorted(passing, key=lambda t: (bool(t.proposal.guess), t.all_doubts, t.proposal.distance))
    chosen, why = _choose(ranked)
    if chosen is not None and untried and not chosen.proposal.tuning:
        chosen, why = None, "not all alternatives could be tried; --budget gives more time"
    if chosen is not None and not compile:
        confirmed = trials.run(chosen.texts, compile=True)
        if confirmed.healthy:
            chosen = replace(chosen, seen=confirmed)
        elif confirmed.broken:
            chosen, why = None, f"with the device compiler the run did not come to its end ({confirmed.broken})"
        else:
            why = f"{chosen.proposal.title}: then it fails in the device compiler"
            return Outcome(None, (), (replace(chosen, seen=confirmed), *further), len(tried), why)
    if not tried:
        why = "no change is known for this place"
    elif not passing:
        why = f"none of {len(tried)} changes that were tried lets the script pass"
    return Outcome(chosen, tuple(ranked), further, len(tried), why)


def _as_much(start: Seen, seen: Seen) -> bool:
    """Whether a run built what was tried before, and launched no less."""
    return not missing(start.attempted, seen.built) and seen.launches >= start.launches


def _key(texts: Mapping[str, str]) -> str:
    return "\0".join(f"{path}\0{text}" for path, text in sorted(texts.items()))


def _doubted(tried: Tried, sources: Sources, start: Seen) -> Tried:
    """With the doubts about the buffers that the edited statements name, and those about the whole kernel that the start
    did not raise. A tuning names no buffer: it must not raise more doubts than there were."""
    touched = _touched(tried.proposal, sources)
    before = [doubt for record in start.records for doubt in doubts(record)]
    found = [doubt for record in tried.seen.records for doubt in doubts(record)]
    found += changed_interface(start.records, tried.seen.records)
    if tried.proposal.tuning:
        counts = [d for d in found if d not in before] if start.records and len(found) > len(before) else []
    else:
        counts = [d for d in found if d.buffers & touched or (d.everything and d not in before)]
    return replace(tried, doubts=tuple(d for d in counts if d.kind in tried.proposal.doubts), all_doubts=len(found))


def _touched(proposal: Proposal, sources: Sources) -> set[str]:
    """The names in the statements that are edited, of compound ones in their headers, and in those that are added."""
    touched: set[str] = set()
    for edit in proposal.edits:
        source = sources.files[edit.file]
        heads = own_parts(source.enclosing_statement(edit.old))
        touched |= {name.value for head in heads for name in source.all(cst.Name, head)}
        added = edit.new if isinstance(edit.new, list | tuple) else ()
        touched |= {name for node in added if isinstance(node, cst.SimpleStatementLine) for name in names_in(node)}
    return touched


def _further(finding: Finding, start: Seen, seen: Seen) -> bool:
    """Whether a run ended at another fault than the one asked about, which comes later: in a later stage, further down
    in the same file, or after more kernels."""
    if seen.broken or not seen.faults:
        return False
    other = seen.faults[0].finding
    if other.rule is None or finding.rule in {fault.finding.rule for fault in seen.faults}:
        return False
    if other.stage in STAGES and finding.stage in STAGES and other.stage != finding.stage:
        return STAGES.index(other.stage) > STAGES.index(finding.stage)
    one, two = finding.location, other.location
    below = one is not None and two is not None and one.file == two.file and two.line > one.line
    return below or len(seen.built) > len(start.built)


def _choose(ranked: Sequence[Tried]) -> tuple[Tried | None, str]:
    """The one that may be called the fix, else why there is none."""
    if not ranked:
        return None, ""
    best = ranked[0]
    if best.proposal.guess:
        return None, best.proposal.guess
    if best.doubts:
        return None, f"the script builds with it, but {best.doubts[0].what}"
    if best.proposal.tuning and any(uses_thread_index(record) for record in best.seen.records):
        return (
            None,
            "the kernel computes with the number of a thread, so another number of threads may change what it computes",
        )
    rivals = [t for t in ranked if not t.proposal.guess and t.meaning != best.meaning and not _dominates(best, t)]
    if not rivals or (best.proposal.tuning and all(t.proposal.tuning for t in rivals)):
        return best, ""
    return None, "several changes let the script pass, and they do not mean the same"


def _dominates(one: Tried, other: Tried) -> bool:
    """Whether one change raises fewer doubts than another or is nearer to what is written, and is worse in neither."""
    mine, theirs = (one.all_doubts, one.proposal.distance), (other.all_doubts, other.proposal.distance)
    return mine != theirs and mine[0] <= theirs[0] and mine[1] <= theirs[1]


def fixes_of(outcome: Outcome, command: str) -> tuple[Fix, ...]:
    """The candidates as a report shows them, the chosen one first."""
    shown = []
    if outcome.chosen is not None:
        one = outcome.chosen
        shown.append(Fix(one.proposal.title, _passed(one), one.patch, "passed", _level(one), command))
        return tuple(shown)
    for one in outcome.passing[:SHOWN]:
        shown.append(
            Fix(
                one.proposal.title,
                f"{_passed(one)}; not verified: {outcome.why}",
                one.patch,
                "not-run",
                _level(one),
                command,
            )
        )
    for one in outcome.further[: SHOWN - len(shown)]:
        faults = one.seen.faults
        to = f"{faults[0].finding.rule or ''} {faults[0].finding.title}".strip() if faults else "another fault"
        shown.append(
            Fix(one.proposal.title, f"with it the script gets further, to: {to}", one.patch, "failed", None, command)
        )
    return tuple(shown)


def _passed(one: Tried) -> str:
    count = len(one.seen.built)
    text = f"tried on a copy: the script then builds {count} kernel{'s' * (count != 1)}"
    return f"{text} and matches its reference" if _level(one) == "matches" else text


def _level(one: Tried) -> str:
    return "matches" if one.seen.compared and all(one.seen.compared) else "builds"
