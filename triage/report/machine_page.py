"""What `triage doctor` prints: problems first, then abilities, versions and upstream tools; and the same as JSON."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator
from typing import Any

from triage.diagnosis import Diagnosis, Reference, Weight
from triage.model import to_json
from triage.probe import ImportStatus, capabilities
from triage.report.text import defuse, one_line

SCHEMA = "triage.doctor/1"
WIDTH = 80
#: versions shown even where absent; the others only where installed
VERSIONS = ("tilelang", "apache-tvm-ffi", "torch", "numpy", "z3-solver")
#: the margin that holds names; the longest are `compute-sanitizer` and `layout-visualizer`
_NAME = 20


def render(diagnosis: Diagnosis, reference: Reference, required: Iterable[str] = ()) -> str:
    """The page as plain text of `WIDTH` columns; `required` are the capabilities that were asked for."""
    lines: list[str] = []
    for ability in diagnosis.abilities:
        if ability.name in required and not ability.able:
            lines += _wrap(f"required, and not here: {ability.name} ({ability.why})", "✗ ", "  ")
    lines += _section("PROBLEMS", list(_problems(diagnosis, Weight.PROBLEM)) or ["none found"])
    lines += _section("WORTH KNOWING", _problems(diagnosis, Weight.ADVICE))
    lines += _section("THIS MACHINE CAN", _abilities(diagnosis))
    if not diagnosis.machine.failure:
        lines += _section("VERSIONS", _versions(diagnosis))
        if diagnosis.machine.tilelang.status != ImportStatus.MISSING:
            lines += _section(_tools_heading(diagnosis), _tools(diagnosis, reference))
    return defuse("\n".join(lines).strip("\n") + "\n")


def as_json(diagnosis: Diagnosis, reference: Reference, required: Iterable[str] = ()) -> str:
    """The page as JSON, schema `triage.doctor/1`."""
    able = capabilities(diagnosis.machine)
    machine = to_json(diagnosis.machine)
    for name in ("configs", "variables"):
        machine[name] = None if machine[name] is None else sorted(machine[name])
    data: dict[str, Any] = {
        "schema": SCHEMA,
        "capabilities": sorted(able),
        "required": list(required),
        "missing": [name for name in required if name not in able],
        "problems": to_json(diagnosis.problems),
        "abilities": to_json(diagnosis.abilities),
        "upstream_tools": [
            {"name": t.name, "title": t.title, "use": t.use, "status": diagnosis.tools[t.name]} for t in reference.tools
        ],
        "machine": machine,
    }
    return json.dumps(data, indent=1) + "\n"


def _section(heading: str, body: Iterable[str]) -> list[str]:
    entries = list(body)
    return ["", heading, *entries] if entries else []


def _wrap(text: str, first: str, rest: str) -> list[str]:
    """Foreign text in lines of `WIDTH`; a path is never broken."""
    return textwrap.wrap(
        one_line(text),
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_on_hyphens=False,
        break_long_words=False,
    ) or [first.rstrip()]


def _commands(text: str) -> Iterator[str]:
    """What to do, a line each however long: a command that was broken apart cannot be copied."""
    for line in text.split("\n"):
        yield f"  → {one_line(line)}"


def _problems(diagnosis: Diagnosis, weight: Weight) -> Iterator[str]:
    mark = "✗ " if weight == Weight.PROBLEM else "• "
    for problem in diagnosis.problems:
        if problem.weight != weight:
            continue
        yield from _wrap(problem.title, mark, "  ")
        if problem.why:
            yield from _wrap(problem.why, "  ", "  ")
        if problem.do:
            yield from _commands(problem.do)
        if problem.source:
            yield f"  {one_line(problem.source)}"


def _abilities(diagnosis: Diagnosis) -> Iterator[str]:
    for ability in diagnosis.abilities:
        mark = "✓" if ability.able else "✗"
        yield from _wrap(
            ": ".join(filter(None, (ability.what, ability.why))), f"{mark} {ability.name:<{_NAME - 2}}", " " * _NAME
        )
        if ability.do:
            yield from _commands(ability.do)


def _versions(diagnosis: Diagnosis) -> Iterator[str]:
    machine = diagnosis.machine
    rows: list[tuple[str, str]] = [("python", f"{machine.interpreter.get('version', 'unknown')}  {machine.python}")]
    for name in VERSIONS:
        rows.append((name, machine.version(name) or "not installed"))
    if machine.version("torch"):
        built = (
            f"CUDA {machine.torch_cuda}"
            if machine.torch_cuda
            else f"ROCm {machine.torch_hip}"
            if machine.torch_hip
            else "the CPU"
        )
        rows.append(("torch built for", built))
    for name in ("nvcc", "cxx", "hipcc", "ncu", "compute-sanitizer"):
        program = machine.program(name)
        if program.path:
            rows.append((name, f"{program.version or 'unknown'}  {program.path}"))
    if machine.driver or machine.driver_cuda:
        rows.append(("driver", f"{machine.driver or 'unknown'}, CUDA {machine.driver_cuda or 'unknown'}"))
    if machine.cuda_home:
        rows.append(("CUDA toolkit", machine.cuda_home))
    rows += [(name, value) for name, value in machine.environment.items()]
    for name, value in rows:
        yield from _wrap(value, f"  {one_line(name):<{_NAME - 3}} ", " " * _NAME)


def _tools_heading(diagnosis: Diagnosis) -> str:
    counts = {status: list(diagnosis.tools.values()).count(status) for status in ("missing", "unknown")}
    told = [f"{count} {status}" for status, count in counts.items() if count]
    return f"TOOLS OF THIS TILELANG ({', '.join(told) or 'none missing'})"


def _tools(diagnosis: Diagnosis, reference: Reference) -> Iterator[str]:
    marks = {"present": "✓", "missing": "✗", "unknown": "?"}
    for tool in reference.tools:
        yield from _wrap(tool.title, f"{marks[diagnosis.tools[tool.name]]} {tool.name:<{_NAME - 2}}", " " * _NAME)
