"""`triage rules`: list, check, mutate and make rules. Heavy imports wait in the functions."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from triage.arguments import UsageError
from triage.console import FAULT, HEALTHY, colored

if TYPE_CHECKING:
    from triage.knowledge.stages import Stages


def _stages() -> Stages:
    from triage.knowledge.files import rules_root
    from triage.knowledge.stages import Stages

    return Stages.load(rules_root() / "reference" / "stages.toml")


def list_command(args: argparse.Namespace) -> int:
    from triage.knowledge.catalogue import show_list
    from triage.knowledge.load import load_rules

    sys.stdout.write(show_list(load_rules()))
    return HEALTHY


def check_command(args: argparse.Namespace) -> int:
    from triage.findings import records_of_text
    from triage.fixes.strategies import STRATEGIES
    from triage.knowledge.check import check_rules, show_checked

    stages = _stages()
    codes = [code.upper() for code in args.codes]
    try:
        done = check_rules(
            lambda text, name: records_of_text(text, name, stages),
            bless=args.bless,
            strategies=STRATEGIES.keys(),
            codes=codes,
        )
    except KeyError as error:
        raise UsageError(f"there is no rule {error.args[0]}; `triage rules list` names them") from None
    sys.stdout.write(show_checked(done, args.bless, color=colored()))
    return FAULT if done.problems else HEALTHY


def mutate_command(args: argparse.Namespace) -> int:
    from triage.findings import records_of_text
    from triage.knowledge.files import rules_root
    from triage.knowledge.mutate import mutate_rules, show_mutated
    from triage.knowledge.sites import Sites

    stages = _stages()
    sites = Sites.load(rules_root() / "reference" / "sites.jsonl")
    codes = [code.upper() for code in args.codes]
    try:
        found = mutate_rules(lambda text, name: records_of_text(text, name, stages), codes=codes, sites=sites)
    except KeyError as error:
        raise UsageError(f"there is no rule {error.args[0]}; `triage rules list` names them") from None
    except ValueError as error:
        raise UsageError(f"{error}\n`triage rules check` says more") from None
    sys.stdout.write(show_mutated(found))
    return HEALTHY


def new_command(args: argparse.Namespace) -> int:
    from triage.findings import records_of_text
    from triage.knowledge.new import new_rule

    stages = _stages()
    try:
        log = None if args.log is None else _read_log(args.log)
        written = new_rule(
            args.category, args.name, args.stage, log=log, read=lambda text, name: records_of_text(text, name, stages)
        )
    except (ValueError, OSError) as error:
        raise UsageError(str(error)) from None
    for path in written:
        print(path)
    print(f"fill in what says TODO, then: triage rules check --bless {written[0].name[:6]}", file=sys.stderr)
    return HEALTHY


def _read_log(name: str) -> str:
    """A file, or standard input for `-`; bytes that are no text are shown as such."""
    if name == "-":
        return sys.stdin.read()
    return Path(name).read_text("utf-8", errors="backslashreplace")
