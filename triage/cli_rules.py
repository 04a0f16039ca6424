"""`triage rules`: list, check, mutate and make rules. Heavy imports wait in the functions."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from triage.arguments import UsageError
from triage.console import FAULT, HEALTHY, say, show

if TYPE_CHECKING:
    from triage.knowledge.fixtures import Read

#: How what `--bless` adds and takes away looks on a terminal; no problem begins with these signs.
DIFF = {r"(?m)^\+.*$": "green", r"(?m)^-.*$": "red"}


def list_command(args: argparse.Namespace) -> int:
    from triage.knowledge.catalogue import show_list
    from triage.knowledge.load import load_rules

    show(show_list(load_rules()))
    return HEALTHY


def check_command(args: argparse.Namespace) -> int:
    from triage.fixes.strategies import STRATEGIES
    from triage.knowledge.check import Checked, check_rules, show_checked, unreadable
    from triage.knowledge.files import rules_root

    if problems := unreadable(rules_root()):
        show(show_checked(Checked(problems)))
        return FAULT
    try:
        done = check_rules(
            _reader(), bless=args.bless, strategies=STRATEGIES.keys(), codes=[code.upper() for code in args.codes]
        )
    except KeyError as error:
        raise _no_rule(error) from None
    except OSError as error:
        raise _no_access(error) from None
    show(show_checked(done, args.bless), DIFF)
    return FAULT if done.problems else HEALTHY


def mutate_command(args: argparse.Namespace) -> int:
    from triage.knowledge.files import require, rules_root
    from triage.knowledge.mutate import mutate_rules, show_mutated
    from triage.knowledge.sites import Sites

    require(rules_root())
    sites = Sites.load(rules_root() / "reference" / "sites.jsonl")
    try:
        found = mutate_rules(_reader(), codes=[code.upper() for code in args.codes], sites=sites)
    except KeyError as error:
        raise _no_rule(error) from None
    except OSError as error:
        raise _no_access(error) from None
    show(show_mutated(found))
    return FAULT if any(one.untold for one in found) else HEALTHY


def new_command(args: argparse.Namespace) -> int:
    from triage.knowledge.files import KnowledgeError
    from triage.knowledge.new import new_rule

    try:
        log = None if args.log is None else _read_log(args.log)
        written = new_rule(args.category, args.name, args.stage, log=log, read=_reader() if log is not None else None)
    except KnowledgeError:
        raise
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    show("".join(f"{path}\n" for path in written))
    say(f"fill in what says TODO, then: triage rules check --bless {written[0].name[:6]}")
    return HEALTHY


def _reader() -> Read:
    """What makes records of a log. Raises `KnowledgeError`."""
    from triage.findings import records_of_text
    from triage.knowledge.files import rules_root
    from triage.knowledge.stages import Stages

    stages = Stages.load(rules_root() / "reference" / "stages.toml")
    return lambda text, name: records_of_text(text, name, stages)


def _no_rule(error: KeyError) -> UsageError:
    return UsageError(f"there is no rule {error.args[0]}; `triage rules list` names them")


def _no_access(error: OSError) -> UsageError:
    return UsageError(f"{error.filename}: {error.strerror}")


def _read_log(name: str) -> str:
    """A file, or standard input for `-`; bytes that are no text are shown as such."""
    raw = sys.stdin.buffer if name == "-" else io.BytesIO(Path(name).read_bytes())
    return io.TextIOWrapper(raw, "utf-8", errors="backslashreplace").read()
