"""The one loop that executes the walker's effects; and how a case begins, is taken up again, and ends in a report."""

from __future__ import annotations

import contextlib
import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import triage
from triage.case import Case
from triage.conclusion import build
from triage.experiment.template import Template
from triage.graph import walker
from triage.graph.check import check
from triage.graph.load import Graph, GraphError, loads
from triage.knowledge.facts import fact_types
from triage.knowledge.files import rules_root
from triage.model import Step, StepOutcome, StepStatus, to_json
from triage.report import markdown
from triage.report.contract import Report
from triage.report.json_report import render as as_json
from triage.session import CaseUnusable, Session, replay
from triage.tools import capabilities
from triage.tools.base import Options, Result, Work, variables_set
from triage.tools.registry import RUNNERS, SPECS

Progress = Callable[[str], None]
#: A source file above this size is not kept for the report.
SOURCE_LIMIT = 2 << 20
#: seconds for experiments where the user names none
BUDGET, BUDGET_WITH_GPU = 120.0, 300.0


def new_case(options: Options, root: Path, graph_file: Path | None = None) -> Case:
    """Make a case for a script and write its first event. Raises `GraphError` for a graph that cannot be walked."""
    text = read_graph(graph_file or rules_root() / "graph.toml")
    usable_graph(text)
    case = _make_case(root, Path(options.script).name if options.script else options.module or "case")
    script = Path(options.script) if options.script else None
    digest = hashlib.sha256(script.read_bytes()).hexdigest() if script else ""
    able = sorted(capabilities.quick(options.python))
    if options.budget is None:
        options = replace(options, budget=usual_budget(able))
    subject = {"kind": "script", "path": options.script or f"-m {options.module}", "sha256": digest}
    case.append(
        {
            "type": "open",
            "triage": triage.__version__,
            "at": str(case.path.absolute()),
            "subject": {**subject, "argv": list(options.argv)},
            "options": to_json(options),
            "capabilities": able,
            "graph": case.put(text.encode("utf-8")),
        }
    )
    return case


def usual_budget(able: Collection[str]) -> float:
    """Seconds for experiments where the user names none: on a GPU every run of the script is a process of its own."""
    return BUDGET_WITH_GPU if "cuda" in able else BUDGET


def read_graph(path: Path) -> str:
    """The text of a graph file. Raises `GraphError` where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise GraphError([f"{path} cannot be read: {error}"]) from None


def _make_case(root: Path, name: str) -> Case:
    """A case below the working directory, or where nothing can be written there below the temporary directory."""
    try:
        return Case.create(root, name)
    except OSError:
        return Case.create(Path(tempfile.mkdtemp(prefix="triage-")), name)


def usable_graph(text: str) -> Graph:
    """Parse and check a graph. Raises `GraphError` with all problems."""
    graph = loads(text)
    problems = check(graph, SPECS, fact_types(rules_root()))
    if problems:
        raise GraphError(problems)
    return graph


def walk(case: Case, progress: Progress) -> Session:
    """Execute effects until nothing is left to walk."""
    session = replay(case)
    with contextlib.ExitStack() as stack:
        template = _lazy_template(session, stack)
        while isinstance(session.effect, walker.Run):
            for event in _execute(session, session.effect, template, progress):
                case.append(event)
                session.apply(event)
    return session


def repeat(case: Case, number: int, progress: Progress) -> Session:
    """Run one step of the walk again, from what was known before it, and stop there; the case stays as it is.

    Raises `CaseUnusable` where the walk has no such step, or skipped it.
    """
    session = replay(case, before=number)
    effect = session.effect
    if not isinstance(effect, walker.Run) or effect.number != number:
        ran = ", ".join(str(s.number) for s in replay(case).state.steps if s.status is not StepStatus.SKIPPED)
        raise CaseUnusable(f"{case.path} has no step {number} that was run; those that were: {ran or 'none'}")
    with contextlib.ExitStack() as stack:
        for event in _execute(session, effect, _lazy_template(session, stack), progress):
            session.apply(event)
    return session


def _lazy_template(session: Session, stack: contextlib.ExitStack) -> Callable[[], Template]:
    """The one template of this walk: started by the first tool that asks, ended with the walk."""
    running: list[Template] = []

    def template() -> Template:
        if not running:
            options = session.options
            made = Template(
                session.case.path / "experiments",
                python=options.python or None,
                env=_environment_of_run(session),
                script=Path(options.script) if options.script else None,
                target=next((k.target for k in session.kernels.values() if k.target), None),
            )
            running.append(stack.enter_context(made))
        return running[0]

    return template


def _environment_of_run(session: Session) -> dict[str, str]:
    """The variables that the script set before its imports: experiments must see them too."""
    return variables_set(session.facts().get("run", {}).get("run.env"))


def _execute(
    session: Session, effect: walker.Run, template: Callable[[], Template], progress: Progress
) -> Iterator[dict[str, Any]]:
    """Run one step: an event before its tool runs and those after it, each to be applied before the next is asked for."""
    spec = SPECS[effect.tool]
    progress(f"{spec.title}" + (f" ({effect.about})" if effect.about != "run" else ""))
    yield {"type": "begin", "node": effect.node, "about": effect.about, "number": effect.number}
    began = time.monotonic()
    result = _run_tool(session, effect, template, progress)
    step = Step(
        node=effect.node, tool=effect.tool, about=effect.about, status=result.status, outcome=result.outcome,
        seconds=round(time.monotonic() - began, 3), detail=result.detail, number=effect.number,
    )  # fmt: skip
    sources = _keep_sources(session, result)
    for event in (
        *([{"type": "sources", "files": sources}] if sources else []),
        {"type": "end", "step": to_json(step), "result": to_json(result)},
    ):
        yield json.loads(json.dumps(event))  # fold what a replay will read, not what is in memory


def _run_tool(session: Session, effect: walker.Run, template: Callable[[], Template], progress: Progress) -> Result:
    """Run a tool. A tool that breaks is a failed step with its traceback as an artifact, and the walk goes on."""
    case = session.case
    work = Work(
        case=case,
        options=session.options,
        about=effect.about,
        number=effect.number,
        dir=case.step_dir(effect.number),
        seconds=session.state.budget,
        capabilities=session.state.capabilities,
        facts=walker.view(session.state, effect.about),
        kernels=session.kernels,
        errors=session.gather("errors"),
        findings=session.findings,
        culprits=session.gather("culprits"),
        rules=session.rules,
        stages=session.stages,
        rules_root=rules_root(),
        read_source=session.read_source,
        template=template,
        progress=progress,
    )
    try:
        return RUNNERS[effect.tool](work)
    except Exception as error:  # noqa: BLE001 - whatever breaks, the user gets a report
        import traceback

        (work.dir / "failure.txt").write_text("".join(traceback.format_exception(error)), encoding="utf-8")
        where = (work.dir / "failure.txt").relative_to(case.path)
        return Result(
            status=StepStatus.FAILED,
            outcome=StepOutcome.UNKNOWN,
            detail=f"triage failed here ({type(error).__name__}: {error}); see {where}",
        )


def _keep_sources(session: Session, result: Result) -> dict[str, str]:
    """Keep the user's files that this result points into, as they are now: the report quotes them later."""
    places: list[str] = [session.options.script] if session.options.script else []
    for error in result.errors:
        places += [f.file for e in _chain(error) for f in e.frames if f.user]
        places += [at.file for e in _chain(error) for at in e.named]
    places += [w.at.file for w in result.warnings if w.at]
    places += [h.at.file for h in result.hazards if h.at]
    places += [c.location.file for c in result.culprits if c.location]
    places += [k.defined_at.file for k in result.kernels if k.defined_at]
    kept = {}
    for file in dict.fromkeys(places):
        path = Path(file)
        if file in session.sources or not path.is_file() or path.stat().st_size > SOURCE_LIMIT:
            continue
        kept[file] = session.case.put(path.read_bytes())
    return kept


def _chain(error: Any) -> Iterable[Any]:
    yield error
    for cause in error.causes:
        yield from _chain(cause)


def write_report(session: Session) -> Report:
    """Build the report and keep it in the case as JSON and Markdown."""
    report = build(session)
    session.case.path.mkdir(parents=True, exist_ok=True)
    (session.case.path / "report.json").write_text(as_json(report), encoding="utf-8")
    (session.case.path / "report.md").write_text(markdown.render(report), encoding="utf-8")
    return report


def may_resume(case: Case, trusted: bool) -> str | None:
    """Why a case must not be resumed as it is, or None. A case is untrusted data: it names a script to run."""
    session = replay(case)
    first = next(case.events())
    script = session.options.script
    if script:
        path = Path(script)
        if not path.is_file():
            return f"{script}, which this case is about, is not there; start anew with `triage run`"
        if hashlib.sha256(path.read_bytes()).hexdigest() != session.subject.get("sha256"):
            return f"{script} has changed since; start anew with `triage run {path.name}`"
    if first.get("at") != str(case.path.absolute()) and not trusted:
        return f"{case.path} comes from elsewhere; look at {script or session.options.module}, then resume with --yes"
    return None


def reopen(case: Case, budget: float | None, experiments: bool) -> bool:
    """Write the event that queues again what was skipped and can be done now; False where nothing can."""
    session = replay(case)
    able = sorted(capabilities.quick(session.options.python))
    seconds = usual_budget(able) if budget is None else budget
    case.append({"type": "resume", "capabilities": able, "budget": seconds, "experiments": experiments})
    return isinstance(replay(case).effect, walker.Run)
