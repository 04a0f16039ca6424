"""The command line. It parses, calls, and turns results into text and an exit status; heavy imports wait in the commands."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TextIO

from triage import arguments, cli_explain, cli_rules, console
from triage.arguments import UsageError
from triage.console import BROKEN, FAULT, HEALTHY, INTERRUPTED, UNKNOWN, USAGE
from triage.knowledge.files import KnowledgeError

if TYPE_CHECKING:
    from triage.case import Case
    from triage.report.contract import Report
    from triage.session import Session
    from triage.tools.base import Options

EXIT_OF_STATE = {"healthy": HEALTHY, "localized": FAULT, "classified": FAULT, "unknown": UNKNOWN}
BINARY_PROBE = 8192
#: Of so many broken files, beside the first, is told which they are.
BROKEN_FILES = 4


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is returned. Nothing but a fault in triage itself ends in status 4."""
    console.replace_closed_streams()
    try:
        status = _answer(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has seen enough
        console.discard(sys.stdout)
        return HEALTHY
    except OSError as error:
        if error.errno not in console.NOT_TAKEN:
            return _own_failure(error)
        console.discard(sys.stdout)
        console.say(f"the output cannot be written: {error.strerror}")
        return USAGE
    return status


def _answer(words: list[str]) -> int:
    """Run one command. Raises `OSError` where standard output cannot be written, or for a bug of triage."""
    try:
        return _dispatch(words)
    except UsageError as error:
        console.say(str(error))
        return USAGE
    except KnowledgeError as error:
        console.say(_of_knowledge(error))
        return USAGE
    except KeyboardInterrupt:
        console.say("interrupted; `triage resume` goes on with the case, `triage report` shows it")
        return INTERRUPTED
    except OSError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever breaks, the user gets a report
        return _own_failure(error)


def _of_knowledge(error: KnowledgeError) -> str:
    """What is wrong with the files of rules and tables, as far as one can take in at once, and what to do."""
    from triage.knowledge.files import rules_root
    from triage.knowledge.rule import RuleErrors

    where = f"of the rules in {rules_root()}: " if isinstance(error, RuleErrors) else ""
    first, *others = f"{where}{error}".splitlines()
    told = [first, *(f"  {line}" for line in others[:BROKEN_FILES])]
    if left := len(others[BROKEN_FILES:]):
        told.append(f"  and {left} more")
    return "\n".join([*told, f"  {error.advice}"])


def _own_failure(error: Exception) -> int:
    import tempfile
    import traceback

    details = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="triage-failure-", suffix=".txt", delete=False) as file:
            file.write(details)
        where = f"The details are in {file.name}."
    except OSError:
        where = f"The details, which no file took:\n{details}"
    console.say(
        f"it failed itself ({type(error).__name__}: {error}).\n"
        f"  This is a bug of triage, not of your kernel. {where}\n"
        "  `triage report` draws what was known by then."
    )
    return BROKEN


def _dispatch(words: list[str]) -> int:
    parser = arguments.parser()
    if words and words[0].endswith(".py"):
        raise UsageError(f"no command {words[0]!r}; did you mean `triage run {words[0]}`?")
    if words[:1] == ["run"]:
        words, subject = _split_run(words)
        args, rest = parser.parse_known_args(words)
        return _run(args, rest, subject)
    for name, command_with_arguments in (("minimize", _minimize), ("bisect", _bisect)):
        if words[:1] == [name] and "--" in words:
            at = words.index("--")
            return command_with_arguments(parser.parse_args(words[:at]), words[at + 1 :])
    args = parser.parse_args(words)
    if args.command is None:
        parser.print_help()
        return HEALTHY
    return COMMANDS[f"{args.command} {args.action}" if args.command == "rules" else args.command](args)


def _split_run(words: list[str]) -> tuple[list[str], list[str]]:
    """Cut `run` off what belongs to the script: all after `--`, and for `-m MODULE` all from the module on."""
    for index, word in enumerate(words):
        if word == "--":
            return words[:index], words[index + 1 :]
        if word == "-m":
            if index + 1 == len(words):
                raise UsageError("-m needs the name of a module, as in `triage run -m pytest tests/test_kernel.py`")
            return words[: index + 2], words[index + 2 :]
    return words, []


# --------------------------------------------------------------------------------------------------------


def _run(args: argparse.Namespace, rest: list[str], subject: list[str]) -> int:
    from triage import driver
    from triage.graph.load import GraphError

    options = _options(args, rest, subject)
    try:
        case = driver.new_case(options, Path.cwd(), args.graph)
    except GraphError as error:
        raise UsageError(str(error)) from None
    return _walk(case, args, fix=args.fix or args.apply, apply=args.apply)


def _options(args: argparse.Namespace, rest: list[str], subject: list[str]) -> Options:
    from triage.tools.base import Options

    if args.module is None and args.script is None:
        raise UsageError("which script? As in `triage run kernel.py`")
    if args.module == "":
        raise UsageError("-m needs the name of a module, as in `triage run -m pytest tests/test_kernel.py`")
    if args.call is not None:
        try:
            compile(args.call, "--call", "eval")
        except SyntaxError as error:
            raise UsageError(f"--call {args.call!r} is no Python expression: {error.msg}") from None
    if args.arch is not None:
        _known_architecture(args.arch)
    if args.module is not None and args.script is not None:
        raise UsageError("either a script or -m MODULE, not both")
    if args.module is not None and rest:
        raise UsageError(f"unknown option {rest[0]}")
    if (args.fix or args.apply) and args.no_experiments:
        raise UsageError(
            "a fix is tried on changed copies of the script, which --no-experiments forbids; leave one out"
        )
    if (args.fix or args.apply) and args.module is not None:
        raise UsageError("a fix is tried on a script; name the file instead of -m MODULE")
    script = "" if args.module is not None else str(_readable_script(args.script))
    if not Path(args.python).exists():
        import shutil

        if shutil.which(args.python) is None:
            raise UsageError(f"--python {args.python}: no such interpreter")
    for option in ("reference", "stages"):
        _known_references(option, getattr(args, option), script, own_interpreter=args.python == sys.executable)
    return Options(
        script=script, module=args.module, argv=(*rest, *subject), cwd=str(Path.cwd()), python=args.python,
        arch=args.arch, call=args.call, kernel=args.kernel, timeout=args.timeout, memory=args.memory,
        budget=args.budget, experiments=not args.no_experiments, ignore=tuple(args.ignore),
        reference=tuple(args.reference), stages=tuple(args.stages),
    )  # fmt: skip


def _known_references(option: str, texts: Sequence[str], script: str, own_interpreter: bool) -> None:
    """Refuse references of which it can be seen without running anything that they cannot be called."""
    from triage.experiment.references import BadReference, look_at, read_reference

    for text in texts:
        try:
            reference = read_reference(text, Path(script) if script else None, Path.cwd())
            look_at(reference, Path(script) if script else None, own_interpreter)
        except BadReference as why:
            raise UsageError(f"--{option} {text!r}: {why}") from None


def _known_architecture(arch: str) -> None:
    from triage.knowledge.files import rules_root
    from triage.lints.devices import DeviceTableError, load_devices

    try:
        devices = load_devices(rules_root() / "reference" / "devices.toml")
    except (DeviceTableError, OSError) as error:
        raise UsageError(f"the table of architectures cannot be read: {error}") from None
    if re.fullmatch(r"sm_\d+[af]?", arch) is None or arch not in devices:
        known = ", ".join(name for name in devices if name.startswith("sm_"))
        raise UsageError(f"--arch {arch!r} is not known; known: {known}, also with the suffix a or f")


def _readable_script(text: str) -> Path:
    path = Path(text)
    if not text or not os.path.exists(path):  # Path.exists raises for a name that is too long
        raise UsageError(f"{text!r}: no such file")
    if path.is_dir():
        raise UsageError(f"{text} is a directory; name the script in it, or use `triage run -m PACKAGE`")
    if not path.is_file():
        raise UsageError(f"{text} is no regular file")
    try:
        with open(path, "rb") as file:
            head = file.read(BINARY_PROBE)
    except OSError as error:
        raise UsageError(f"{text}: {error.strerror}") from None
    if b"\0" in head:
        raise UsageError(f"{text} is a binary file, not a Python script")
    return path.absolute()


def _resume(args: argparse.Namespace) -> int:
    from triage import driver
    from triage.session import CaseUnusable

    case = _case(args.case)
    try:
        problem = driver.may_resume(case, trusted=args.yes)
        if problem:
            raise UsageError(problem)
        if args.step is not None:
            return _repeat(case, args)
        if not driver.reopen(case, budget=args.budget, experiments=not args.no_experiments):
            console.say(f"nothing of {case.path} can be done here that was not done before")
        return _walk(case, args)
    except CaseUnusable as error:
        raise UsageError(str(error)) from None


def _repeat(case: Case, args: argparse.Namespace) -> int:
    """Run one step again and show what it gives; the status is that of the report as it stands after this step."""
    from triage import driver
    from triage.conclusion import build
    from triage.progress import Progress
    from triage.report import json_report, step_page

    with Progress(sys.stderr) as progress:
        session = driver.repeat(case, args.step, progress.tell)
    step = next(s for s in session.state.steps if s.number == args.step)
    result = session.results[-1]
    report = build(session)
    if args.json not in (None, "-"):
        _write(args.json, json_report.render(report))
    page = step_page.render(step, result.facts, result.artifacts, session.findings())
    sys.stdout.write(json_report.render(report) if args.json == "-" else page)
    return HEALTHY if args.exit_zero else EXIT_OF_STATE[report["verdict"]["state"]]


def _walk(case: Case, args: argparse.Namespace, fix: bool = False, apply: bool = False) -> int:
    from triage import driver
    from triage.progress import Progress
    from triage.report import json_report, terminal
    from triage.session import replay

    _stop_as_interrupt()
    quiet, interrupted = args.json == "-", False
    try:
        with Progress(sys.stderr) as progress:
            session = driver.walk(case, progress.tell)
    except KeyboardInterrupt:
        session, interrupted = replay(case), True
    report = driver.write_report(session)
    status = HEALTHY if args.exit_zero else EXIT_OF_STATE[report["verdict"]["state"]]
    try:
        if quiet:
            sys.stdout.write(json_report.render(report))
            sys.stdout.flush()
        elif args.json:
            _write(args.json, json_report.render(report))
        page = sys.stderr if quiet else sys.stdout
        terminal.show(report, page)
    except BrokenPipeError:
        console.discard(sys.stdout)
    except OSError as error:
        console.discard(sys.stdout)
        console.say(f"the report cannot be shown ({error.strerror}); it is in {session.case.path}")
    if interrupted:
        raise KeyboardInterrupt
    return _deliver(session, report, apply, status, sys.stderr if quiet else sys.stdout) if fix else status


def _deliver(session: Session, report: Report, apply: bool, status: int, page: TextIO) -> int:
    """Write the verified fix; what cannot be written is said, and is bad usage where it was asked to be applied."""
    from triage.patching import NotFixed, deliver

    try:
        written = deliver(session, report, apply)
    except NotFixed as error:
        console.say(f"{'nothing was changed' if apply else 'no patch was written'}: {error}")
        return USAGE if apply or error.refused else status
    patch = os.path.relpath(written.patch, written.root)
    if written.changed:
        print(f"changed: {', '.join(written.changed)} (to undo: patch -R -p0 < {patch})", file=page)
        return status
    where = "" if written.root == os.getcwd() else f"cd {written.root} && "
    print(f"patch: {patch} (to apply: {where}patch -p0 < {patch}, or git apply -p0 {patch})", file=page)
    return status


def _stop_as_interrupt() -> None:
    """Let a request to stop end as Ctrl-C does: with what is known so far written down."""
    import signal

    def stop(number: int, frame: object) -> NoReturn:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)


def _case(text: str | None) -> Case:
    from triage.case import ROOT, Case, CaseError

    try:
        named = Path(text) if text else None
        if named is not None and not named.exists() and (Path.cwd() / ROOT / named).is_dir():
            named = Path.cwd() / ROOT / named
        return Case.open(named) if named else Case.latest(Path.cwd())
    except CaseError as error:
        raise UsageError(str(error)) from None


def _minimize(args: argparse.Namespace, argv: Sequence[str] = ()) -> int:
    from triage.experiment.autodd import NotInstalledError
    from triage.experiment.client import TemplateError
    from triage.experiment.minimize_script import NothingToMinimizeError
    from triage.minimizing import Request, minimize
    from triage.progress import Progress

    if args.arch is not None:
        _known_architecture(args.arch)
    output = Path(args.output)
    if output.is_dir() or not output.absolute().parent.is_dir():
        raise UsageError(f"-o {args.output}: name a file in a folder that exists")
    script = _readable_script(args.script)
    if output.exists() and output.samefile(script):
        raise UsageError("-o names the script itself; the minimized one goes to a file of its own")
    request = Request(
        script,
        output,
        tuple(argv),
        args.call,
        args.python,
        args.arch,
        budget=args.budget,
        reducer=args.reducer,
        jobs=args.jobs,
    )
    console.say("this runs changed copies of the script, in processes and folders of their own")
    _stop_as_interrupt()
    try:
        with Progress(sys.stderr) as progress:
            result = minimize(request, progress.tell)
    except (NothingToMinimizeError, NotInstalledError, TemplateError) as error:
        console.say(f"nothing was minimized: {error}")
        return UNKNOWN
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{args.script} to {args.output}: {error}") from None
    ended = "" if result.finished else "; the time ran out, --budget gives more"
    print(
        f"{args.output}: {result.lines_before} -> {result.lines} lines, the same fault"
        f"{f' ({result.rule})' if result.rule else ''}; {result.runs} runs in {result.seconds:.1f} s{ended}"
    )
    return HEALTHY


def _bisect(args: argparse.Namespace, argv: Sequence[str] = ()) -> int:
    from triage.bisecting import NothingToBisectError, Request, bisect_script
    from triage.experiment.client import TemplateError
    from triage.progress import Progress
    from triage.report import switch_page
    from triage.report.text import encodable

    if args.arch is not None:
        _known_architecture(args.arch)
    script = _readable_script(args.script)
    request = Request(script, tuple(argv), args.call, args.python, args.arch, args.kernel, args.budget)
    _stop_as_interrupt()
    try:
        with Progress(sys.stderr) as progress:
            answers = bisect_script(request, progress.tell)
    except (NothingToBisectError, TemplateError) as error:
        console.say(f"nothing was bisected: {error}")
        return UNKNOWN
    pages = [
        switch_page.render(answer.title, answer.how, answer.found.sets, answer.found.neighbours) for answer in answers
    ]
    sys.stdout.write(encodable("\n".join(pages), sys.stdout.encoding or "utf-8"))
    return HEALTHY if any(answer.found.sets for answer in answers) else UNKNOWN


def _report(args: argparse.Namespace) -> int:
    from triage.conclusion import build
    from triage.report import json_report, markdown, terminal
    from triage.session import CaseUnusable, replay

    try:
        report = build(replay(_case(args.case)))
    except CaseUnusable as error:
        raise UsageError(str(error)) from None
    if args.format == "terminal" and args.output is None:
        terminal.show(report, sys.stdout)
        return HEALTHY
    render = {"terminal": terminal.render, "md": markdown.render, "json": json_report.render}[args.format]
    if args.output:
        _write(args.output, render(report))
    else:
        sys.stdout.write(render(report))
    return HEALTHY


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from None


def _clean(args: argparse.Namespace) -> int:
    from triage.case import clean

    count = clean(Path.cwd())
    print(f"removed {count} case{'' if count == 1 else 's'}")
    return HEALTHY


def _tolerance(args: argparse.Namespace) -> int:
    from triage import cli_tolerance

    return cli_tolerance.command(args)


def _graph(args: argparse.Namespace) -> int:
    from triage.graph.check import check
    from triage.graph.draw import draw
    from triage.graph.load import GraphError, load
    from triage.knowledge.facts import fact_types
    from triage.knowledge.files import rules_root
    from triage.tools.registry import SPECS

    root = rules_root()
    try:
        graph = load(args.file or root / "graph.toml")
    except GraphError as error:
        raise UsageError(str(error)) from None
    problems = check(graph, SPECS, fact_types(root))
    sys.stdout.write(draw(graph, SPECS, args.format))
    for problem in problems:
        console.say(f"graph: {problem}")
    return FAULT if problems else HEALTHY


def _doctor(args: argparse.Namespace) -> int:
    from triage.tools import doctor

    return doctor.command(args.require, args.python, args.json)


COMMANDS: Mapping[str, Callable[[argparse.Namespace], int]] = {
    "resume": _resume,
    "minimize": _minimize,
    "bisect": _bisect,
    "report": _report,
    "explain": cli_explain.command,
    "rules list": cli_rules.list_command,
    "rules check": cli_rules.check_command,
    "rules mutate": cli_rules.mutate_command,
    "rules new": cli_rules.new_command,
    "tolerance": _tolerance,
    "graph": _graph,
    "doctor": _doctor,
    "clean": _clean,
}
