"""What a run on the CPU twin, or on a device, shows: which launches were computed, what the script compared, and what no right kernel does. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from triage.experiment.comparisons import is_asked_for, summary_of
from triage.experiment.events import Event
from triage.experiment.explained import explained
from triage.experiment.kernels import blob_of, kernels_of, record_of
from triage.model import KernelRecord, Mismatch, Output, Place, from_json

#: errors by which a script says itself that its check failed
OWN_CHECKS = ("AssertionError", "SystemExit")


@dataclass(frozen=True)
class Compared:
    """A comparison of values that were computed. `mismatch` tells where the wrong elements are, if it failed and is known."""

    id: str
    function: str
    at: Place | None
    matched: bool
    tolerance: Mapping[str, Any]
    dtype: str = ""
    vacuous: str = ""
    mismatch: Mismatch | None = None
    #: of a comparison that agreed: the elements that were beyond its tolerance, and that it let through
    let_through: Mismatch | None = None
    #: which launches wrote its operands
    written: tuple[Output, ...] = ()
    #: the blob of its mask of wrong elements, where that is small enough to keep
    mask: str | None = None
    shape: tuple[int, ...] = ()
    #: the largest magnitude that was expected
    largest: float | None = None
    #: of one that failed: its answer comes to nothing but a text that people read ("told"), which says that something is wrong ("wrong")
    only_told: str = ""
    #: of a comparison that the user asked for: the kernel whose launch it looks at, and why a difference counts as none
    kernel: str = ""
    allowed: str = ""

    @property
    def of_kernel(self) -> bool:
        """Whether a launch wrote one of its operands."""
        return bool(self.written) or self.asked_for

    @property
    def writers(self) -> frozenset[str]:
        """The kernels whose launches wrote its operands."""
        return frozenset(output.kernel for output in self.written)

    @property
    def asked_for(self) -> bool:
        """Whether triage compares, with a reference that the user gave."""
        return is_asked_for(self.function)


@dataclass(frozen=True)
class TwinRun:
    """A run in twin mode, or one whose launches a device computed. `made_up`: why launches were not computed, with their number."""

    computed: int
    made_up: Mapping[str, int]
    comparisons: tuple[Compared, ...]
    virtual: int
    happenings: tuple[Mapping[str, Any], ...]
    #: parameters that held NaN after a launch, each once a launch
    nan: int
    #: the script ended with an error that rests on a comparison, or with a check of its own that failed
    failed_check: bool
    ended: str
    #: the comparison on which the error rests that ended the script; "" if none is known to, None for a script without error
    rests_on: str | None = None
    #: names of the kernels that were computed, each once
    kernels: tuple[str, ...] = ()
    #: the line of the script where the error that ended it was raised
    raised_at: Place | None = None

    @property
    def failed(self) -> list[Compared]:
        """The failed comparisons of what a kernel wrote, or that the user asked for."""
        return [c for c in self.comparisons if not c.matched and c.of_kernel]

    @property
    def verdict(self) -> str:
        """`matched`: what was compared agreed, and all of it was computed; `mismatched`: the script's own check failed; else `unknown`.

        A script that asked, got no for an answer and went on to its end may have expected that; who gave a reference did not, nor one who
        only prints the answer.
        """
        if not self.computed:
            return "unknown"
        wrong = self.failed
        if any(c.asked_for or self._is_told(c) for c in wrong):
            return "mismatched"
        if wrong and self.ended == "succeeded":
            return "unknown"
        if wrong or self.failed_check:
            return "unknown" if self.made_up and not wrong else "mismatched"
        said = [c for c in self.comparisons if c.matched and not c.vacuous]
        return "matched" if said and self.ended == "succeeded" and not self.virtual and not self.made_up else "unknown"

    def _is_told(self, wrong: Compared) -> bool:
        """Whether people are told that a result is wrong, and no other comparison of it, such as one with a wider tolerance, agrees."""
        agreed = {output for c in self.comparisons if c.matched and not c.vacuous for output in c.written}
        return bool(wrong.only_told) and self.ended == "succeeded" and not agreed & set(wrong.written)

    @property
    def perhaps_meant(self) -> bool:
        """Whether the script only prints that results differ, without a word that this is wrong: it may expect it."""
        return self.ended == "succeeded" and bool(self.failed) and all(c.only_told == "told" for c in self.failed)

    @property
    def between_results(self) -> bool:
        """Whether what two launches wrote was compared with each other, and differs: either may be the wrong one."""
        return any(len({output.launch for output in c.written}) > 1 for c in self.failed)

    @property
    def passes(self) -> bool:
        """Whether a script whose check failed before comes to its end now, with everything computed and nothing wrong."""
        sound = bool(self.computed) and not self.made_up and not self.virtual and self.ended == "succeeded"
        return sound and not self.failed_check and all(c.matched and not c.vacuous for c in self.comparisons)


def read(events: Sequence[Event], ended: str, blob: Callable[[str], bytes]) -> TwinRun:
    """What the events of a finished run in twin mode say; `ended` is how the process ended, `blob` reads what was put aside."""
    told = [e for e in events if e["type"] == "twin"]
    compares = [e for e in events if e["type"] == "compare"]
    reasons = Counter(str(e.get("why")) for e in told if not e.get("computed"))
    launched = [bool(e.get("virtual")) for e in events if e["type"] == "launch.begin"]
    if sum(launched) > len(told):
        reasons["the launch was refused"] += sum(launched) - len(told)
    happenings = tuple({**h, "kernel": e.get("kernel")} for e in told for h in whole(e.get("happenings"), blob) or ())
    compared = [_compared(e, blob) for e in compares if not e.get("virtual") and e.get("matched") is not None]
    return TwinRun(
        computed=sum(bool(e.get("computed")) for e in told) + launched.count(False),
        made_up=dict(reasons),
        comparisons=tuple(_within_rounding(compared, events, happenings, blob)),
        virtual=sum(bool(e.get("virtual")) for e in compares),
        happenings=happenings,
        nan=sum(len(e.get("nan") or ()) for e in told),
        failed_check=_failed_check(events),
        ended=ended,
        rests_on=_rests_on(events),
        kernels=_computed(events, told),
        raised_at=_raised_at(events),
    )


def _computed(events: Sequence[Event], told: Sequence[Event]) -> tuple[str, ...]:
    names = {e.get("id"): str(e.get("name") or e.get("id")) for e in events if e["type"] == "kernel"}
    ids = [e.get("kernel") for e in told if e.get("computed")]
    return tuple(dict.fromkeys(names[id] for id in ids if id in names))


def whole(value: Any, blob: Callable[[str], bytes]) -> Any:
    """A field of an event; a large one lies in a blob."""
    sha = blob_of(value) if isinstance(value, dict) and set(value) == {"blob"} else None
    return json.loads(blob(sha)) if sha else value


def _compared(event: Event, blob: Callable[[str], bytes]) -> Compared:
    summary = summary_of(event, blob)
    pattern, let_through = summary.get("pattern"), summary.get("let_through")
    at = event.get("at")
    return Compared(
        id=str(event.get("id")),
        function=str(event.get("function")),
        at=Place(at["file"], int(at["line"])) if at else None,
        matched=bool(event.get("matched")),
        tolerance=summary.get("tolerance") or {},
        dtype=str(summary.get("dtype") or ""),
        vacuous=str(summary.get("vacuous") or ""),
        mismatch=from_json(Mismatch, pattern) if pattern else None,
        let_through=from_json(Mismatch, let_through) if let_through else None,
        shape=tuple(summary.get("shape") or ()),
        largest=summary.get("largest"),
        written=tuple(from_json(Output, written) for written in summary.get("written") or ()),
        mask=blob_of(summary.get("mask")),
        only_told=str(summary.get("only_told") or ""),
        kernel=str(event.get("kernel") or ""),
    )


def _within_rounding(
    compared: Sequence[Compared],
    events: Sequence[Event],
    happenings: Sequence[Mapping[str, Any]],
    blob: Callable[[str], bytes],
) -> Iterator[Compared]:
    """The comparisons, where those with a reference that the user gave agree if rounding explains the difference: nobody gave a tolerance."""
    kernels = {} if all(c.matched or not c.asked_for for c in compared) else kernels_of(events)
    twin = any(e["type"] == "twin" for e in events)

    def record(id: str) -> KernelRecord | None:
        return record_of(kernels[id], blob) if id in kernels else None

    for one in compared:
        if one.matched or not one.asked_for:
            yield one
            continue
        judged = explained(one.mismatch, one.written, events, happenings, record, twin)
        yield replace(one, matched=True, allowed=judged.says) if judged.within else one


def _last_error(events: Sequence[Event]) -> Event | None:
    return next((e for e in reversed(events) if e["type"] == "error" and not e.get("handled")), None)


def _rests_on(events: Sequence[Event]) -> str | None:
    last = _last_error(events)
    return None if last is None else str(last.get("comparison") or "")


def _raised_at(events: Sequence[Event]) -> Place | None:
    frames = ((_last_error(events) or {}).get("error") or {}).get("frames") or ()
    return next((Place(f["file"], int(f["line"])) for f in reversed(frames) if f.get("user")), None)


def _failed_check(events: Sequence[Event]) -> bool:
    last = _last_error(events)
    if last is None:
        return False
    error = last.get("error") or {}
    frames = error.get("frames") or [{}]
    of_the_script = bool(frames[-1].get("user"))
    if last.get("regardless"):
        return False
    return bool(last.get("comparison")) or (of_the_script and str(error.get("type")).rpartition(".")[2] in OWN_CHECKS)
