"""What the user's tilelang knows: names, parameters, data types, asked of the user's interpreter and never imported here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from triage.experiment.process import HARNESS
from triage.experiment.scripts import Candidate, ScriptRunner

MODULES = ("tilelang", "tilelang.language")
#: runs in the place of the script, and answers in a line that begins so
PROBE = HARNESS / "vocabulary.py"
MARK = "triage-vocabulary:"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a function: its name, its kind as `inspect` calls it, and whether it must be given."""

    name: str
    kind: str
    required: bool


@dataclass(frozen=True)
class Vocabulary:
    """Public names by module, parameters by function, names of data types, keys of pass configurations.

    `targets`: architectures and kinds of targets, which no interpreter lists; they come from the table of devices.
    """

    names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    parameters: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict)
    dtypes: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


def ask(
    runner: ScriptRunner, modules: Iterable[str] = (), targets: Iterable[str] = (), seconds: float = 30.0
) -> Vocabulary:
    """What the interpreter of `runner` knows; empty where it does not say. Raises `TemplateError`."""
    asked = tuple(dict.fromkeys(module for module in (*MODULES, *modules) if module))
    shown = runner.run(Candidate(PROBE.read_text("utf-8"), asked), seconds)
    path = shown.directory / "stdout"
    lines = path.read_text("utf-8", "replace").splitlines() if path.is_file() else []
    answer = next((line.removeprefix(MARK) for line in lines if line.startswith(MARK)), None)
    if answer is None:
        return Vocabulary(targets=tuple(targets))
    names, parameters, types, options = json.loads(answer)
    return Vocabulary(
        {module: tuple(found) for module, found in names.items()},
        {name: tuple(Parameter(*one) for one in found) for name, found in parameters.items()},
        tuple(types),
        tuple(options),
        tuple(targets),
    )
