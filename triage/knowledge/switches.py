"""The switches of the compiler, read from `rules/reference/switches.toml`: what they are stands at the head of that file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from triage.knowledge.files import FileError, read_table

SCHEMA = "triage.switches/1"
KINDS = (
    "pass-config", "target", "threads", "loop-annotation", "annotation", "op-annotation", "attribute", "loop-kind",
)  # fmt: skip
#: what a switch may govern that is no pass
NO_PASSES = ("codegen", "device-compile")


class SwitchTableError(FileError):
    """The table of switches is not readable; the message names the file and what is wrong in it."""


class Effect(StrEnum):
    """What a switch does to the result of a correct kernel, from nothing to anything."""

    PRESERVES = "preserves"
    REORDERS = "reorders-floats"
    CHANGES = "changes-result"


@dataclass(frozen=True)
class Switch:
    """One row of the table. `value` None takes away what the switch is about."""

    name: str
    kind: str
    effect: Effect
    cost: str
    passes: tuple[str, ...] = ()
    key: str = ""
    keys: tuple[str, ...] = ()
    value: Any = None
    values: tuple[Any, ...] = ()
    of: str = ""
    targets: tuple[str, ...] = ()
    arch: tuple[int, ...] = ()


def load_switches(path: Path) -> tuple[Switch, ...]:
    """Read the table, in its order. Raises `SwitchTableError`."""
    try:
        data = read_table(path)
    except FileError as error:
        raise SwitchTableError(path, error.line, error.why) from None
    if data.get("schema") != SCHEMA:
        raise SwitchTableError(path, None, f"schema is {data.get('schema')!r}, expected {SCHEMA!r}")
    rows = data.get("switch", [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise SwitchTableError(path, None, "each switch must be a [[switch]] table")
    switches = tuple(_switch(path, row) for row in rows)
    names = [switch.name for switch in switches]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SwitchTableError(path, None, f"named twice: {', '.join(twice)}")
    return switches


#: what a row of a kind must have beside name, kind, effect, passes and cost
NEEDS = {"pass-config": "key", "target": "values", "threads": "values", "loop-kind": "of"}


def _switch(path: Path, row: Mapping[str, Any]) -> Switch:
    where = f"switch {row.get('name')!r}"
    known = {field.name for field in fields(Switch)}
    unknown = sorted(row.keys() - known)
    if unknown:
        raise SwitchTableError(path, None, f"{where} has an unknown key {unknown[0]!r}")
    missing = [key for key in ("name", "kind", "effect", "passes", "cost") if key not in row]
    if missing:
        raise SwitchTableError(path, None, f"{where} lacks {missing[0]!r}")
    for key in ("name", "kind", "effect", "cost"):
        if not isinstance(row[key], str):
            raise SwitchTableError(path, None, f"{where} has a {key!r} that is no string")
    if row["kind"] not in KINDS:
        raise SwitchTableError(path, None, f"{where} has the kind {row['kind']!r}, known are {', '.join(KINDS)}")
    if row["effect"] not in tuple(Effect):
        raise SwitchTableError(path, None, f"{where} has the effect {row['effect']!r}, known are {', '.join(Effect)}")
    need = NEEDS.get(row["kind"], "keys")
    if not row.get(need):
        raise SwitchTableError(path, None, f"{where} lacks {need!r}, which a switch of kind {row['kind']!r} needs")
    values: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in row.items()}
    return Switch(**(values | {"effect": Effect(row["effect"])}))
