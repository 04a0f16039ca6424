"""The switches that one kernel has, as settings that can be tried on it. Pure.

A **switch** is a row of `rules/reference/switches.toml`; a **setting** is one of its values on one thing of this kernel:
a pass config, the architecture, the launch, one loop, one annotation. Settings of one `slot` exclude each other.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from triage.experiment.choose import Unit, threads
from triage.experiment.template import Change, Program
from triage.knowledge.switches import Effect, Switch

#: pass configs that triage itself sets to see more; they change nothing of what is compiled
OURS = frozenset({"tl.emit_line_directives"})
#: an attribute around statements that says nothing about threads
HARMLESS_ATTRIBUTES = ("threadblock_swizzle_pattern",)
EFFECTS = tuple(Effect)
#: the value of what is there or not
SET, LEFT_OUT = "set", "left out"


@dataclass(frozen=True, eq=False)
class Setting:
    """A switch set on this kernel. `was` and `now` are as one would write them; `line` is where it is written, if known."""

    switch: Switch
    slot: str
    what: str
    was: str
    now: str
    effect: Effect
    change: Change | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    without: str = ""
    target: Any = None
    line: int | None = None
    file: str | None = None

    @property
    def text(self) -> str:
        """The setting in words."""
        return worded(self.what, self.was, self.now)


def worded(what: str, was: str, now: str) -> str:
    """`num_stages of the loop over k 3 → 0`, or of what is only taken away `layout_map of c left out`."""
    return f"{what} {now}" if was == SET else f"{what} {was} → {now}"


def settings(switches: Sequence[Switch], units: Sequence[Unit], program: Program) -> list[Setting]:
    """Every setting that would change something: the least harmful effect first, of these what the script itself sets and
    the same device under another name, else in the order of the table; the values of one slot nearest first."""
    found = [s for switch in switches if _exists(switch, program) for s in _of(switch, units, program)]
    known = {switch.key for switch in switches if switch.kind == "pass-config"}
    found += [s for key in program.pass_configs if key not in known for s in _own_config(key, program)]

    def rank(setting: Setting) -> tuple[int, bool]:
        return EFFECTS.index(setting.effect), not (setting.without or setting.target)

    return sorted(found, key=rank)


def applied(program: Program, chosen: Sequence[Setting]) -> tuple[Program, tuple[Change, ...]]:
    """The program and the changes of its IR that these settings make."""
    configs = dict(program.pass_configs)
    target = program.target
    for setting in chosen:
        configs.pop(setting.without, None)
        configs |= setting.config
        target = setting.target or target
    changes = tuple(setting.change for setting in chosen if setting.change is not None)
    return replace(program, pass_configs=configs, target=target), changes


def together(found: Sequence[Setting]) -> list[Setting]:
    """One setting of each slot, the first."""
    return list({setting.slot: setting for setting in reversed(found)}.values())[::-1]


def effect_of(chosen: Sequence[Setting]) -> Effect:
    """The worst of their effects."""
    return max((setting.effect for setting in chosen), key=EFFECTS.index, default=Effect.PRESERVES)


def governed(chosen: Sequence[Setting]) -> tuple[str, ...]:
    """The passes that any of them governs."""
    return tuple(dict.fromkeys(name for setting in chosen for name in setting.switch.passes))


# ---------------------------------------------------------------------------------------------------------- expansion


def _exists(switch: Switch, program: Program) -> bool:
    """Whether the target of a program has a switch; one whose target is not known may have it."""
    kind, arch = kind_of(program.target), arch_of(program.target)
    if switch.targets and kind is not None and kind not in switch.targets:
        return False
    number = capability(arch) if arch else None
    return not (switch.arch and number is not None and not switch.arch[0] <= number <= switch.arch[1])


def _of(switch: Switch, units: Sequence[Unit], program: Program) -> Iterator[Setting]:
    match switch.kind:
        case "pass-config":
            yield from _config(switch, program)
        case "target":
            yield from _target(switch, program)
        case "threads":
            yield from _threads(switch, units)
        case "loop-kind":
            yield from _loop_kind(switch, units)
        case "attribute":
            yield from (
                _unit(switch, u, str(u.key), SET, LEFT_OUT) for u in units if _is(u, "attribute-around", switch)
            )
        case _:
            yield from _notes(switch, units)


def _config(switch: Switch, program: Program) -> Iterator[Setting]:
    if switch.key in program.pass_configs:
        yield from _own_config(switch.key, program, switch)
    elif switch.value is not None:
        yield Setting(
            switch, switch.key, switch.key, "unset", str(switch.value), switch.effect, config={switch.key: switch.value}
        )


def _own_config(key: str, program: Program, switch: Switch | None = None) -> Iterator[Setting]:
    """What the script itself sets, taken away. Of a key that the table does not have nothing is known."""
    row = switch or Switch(key, "pass-config", Effect.CHANGES, "not known", key=key)
    yield Setting(row, key, key, str(program.pass_configs[key]), "unset", row.effect, without=key)


def _target(switch: Switch, program: Program) -> Iterator[Setting]:
    """The other architectures, by the distance of their compute capabilities; a script without one is left alone. With the
    same capability it is the same device, with or without the features that its suffix names."""
    now = arch_of(program.target)
    if now is None or capability(now) is None:
        return
    here = capability(now) or 0
    config = as_config(program.target)
    for arch in sorted((v for v in switch.values if v != now), key=lambda v: (abs((capability(v) or 0) - here), v)):
        effect = Effect.PRESERVES if capability(arch) == here else switch.effect
        yield Setting(switch, "target", "architecture", now, arch, effect, target={**config, "arch": arch})


def _threads(switch: Switch, units: Sequence[Unit]) -> Iterator[Setting]:
    for unit in units:
        if unit.kind != "threads" or not all(isinstance(count, int) for count in unit.value):
            continue
        now = math.prod(unit.value)
        rest = unit.value[1:]
        effect = switch.effect if of_tiles_only(units) else Effect.CHANGES
        fitting = [count // math.prod(rest) for count in switch.values if count % math.prod(rest) == 0]
        for count in sorted(
            (c for c in fitting if c and c != unit.value[0]), key=lambda c: (abs(c * math.prod(rest) - now), c)
        ):
            value = (count, *rest)
            after = threads(replace(unit, value=value))
            yield replace(_unit(switch, unit, "threads", threads(unit), after, value), effect=effect, slot=unit.id)


def of_tiles_only(units: Sequence[Unit]) -> bool:
    """Whether a kernel leaves it to the compiler what each thread does: then any number of them computes the same."""
    for unit in units:
        if unit.kind == "threads" and unit.reads:
            return False
        if unit.kind == "attribute-around" and unit.key not in HARMLESS_ATTRIBUTES:
            return False
        if unit.kind in ("statement", "bind") and unit.op is not None and not unit.op.startswith("tl.tileop."):
            return False
    return True


def _loop_kind(switch: Switch, units: Sequence[Unit]) -> Iterator[Setting]:
    for unit in units:
        if unit.kind == "loop-kind" and unit.loop and unit.loop["kind"] == switch.of:
            yield _unit(switch, unit, over(unit), switch.of, "serial")


def _notes(switch: Switch, units: Sequence[Unit]) -> Iterator[Setting]:
    for unit in units:
        if not _is(unit, switch.kind, switch) or unit.value == switch.value:
            continue
        name = str(unit.key).removeprefix("tl_")
        what = f"{name} of the {over(unit)}" if unit.loop else f"{name} of {unit.buffers[0]}" if unit.buffers else name
        was = str(unit.value) if isinstance(unit.value, (int, bool)) else SET
        now = LEFT_OUT if switch.value is None else str(switch.value)
        yield _unit(switch, unit, what, was, now, switch.value)


def _is(unit: Unit, kind: str, switch: Switch) -> bool:
    return unit.kind == kind and unit.key in switch.keys


def _unit(switch: Switch, unit: Unit, what: str, was: str, now: str, value: Any = None) -> Setting:
    span = unit.span if unit.span and unit.span.get("user") else None
    return Setting(
        switch, unit.id, what, was, now, switch.effect, change=Change(unit.id, value),
        line=int(span["line"]) if span else None, file=str(span["file"]) if span else None,
    )  # fmt: skip


def over(unit: Unit) -> str:
    return f"loop over {unit.loop['var']}" if unit.loop else "loop"


# ------------------------------------------------------------------------------------------------------------- target


def as_config(target: Any) -> dict[str, Any]:
    """A target as the dict of its attributes; empty where it is only a name."""
    if isinstance(target, str) and target.lstrip().startswith("{"):
        try:
            target = json.loads(target)
        except ValueError:
            return {}
    return dict(target) if isinstance(target, Mapping) else {}


def kind_of(target: Any) -> str | None:
    """The kind of a target: cuda, hip, c, …; None where it is not known."""
    kind = as_config(target).get("kind")
    return str(kind) if kind else str(target) if isinstance(target, str) and target.isalpha() else None


def arch_of(target: Any) -> str | None:
    arch = as_config(target).get("arch")
    return str(arch) if arch else None


def capability(arch: str) -> int | None:
    """90 of `sm_90a`; None for an architecture that is none of CUDA's."""
    found = re.fullmatch(r"sm_(\d+)[af]?", arch)
    return int(found[1]) if found else None
