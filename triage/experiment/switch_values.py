"""Which switches of the compiler make the wrong values of a kernel right: the script run again with one kernel compiled otherwise.

For a kernel that the twin computes right and the device does not. What the script itself sets is taken away first, one by one; then all
switches that leave a right kernel's result alone are set together, and where that helps, as few of them as do are looked for.
"""

from __future__ import annotations

import ast
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from triage.experiment.errors import read_events
from triage.experiment.minimal import OutOfBudget, minimize
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.experiment.switches import OURS, Setting, governed, together, worded
from triage.experiment.twin import read
from triage.knowledge.switches import Effect

#: a set that helps is run so many times more, and then the script unchanged once more
AGAIN = 2
#: what the device is, and how many threads run, is no part of a remedy
FIXED = ("target", "threads")


@dataclass(frozen=True)
class Helpful:
    """A set of settings with which the script's own check passes. `own`: the script's settings, taken away."""

    settings: tuple[Setting, ...]
    own: bool

    @property
    def text(self) -> str:
        return " and ".join(worded(s.what, s.was, s.now) for s in self.settings)

    @property
    def passes(self) -> tuple[str, ...]:
        return governed(self.settings)


@dataclass(frozen=True)
class Outcome:
    """What was found, in how many runs; `how` says it in a sentence."""

    how: str
    found: Helpful | None = None
    tries: int = 0


class ValueSearch:
    """Runs a script that `start`s wrong with other settings of the kernel `kernel`. Runs take `limit` seconds at most."""

    def __init__(
        self,
        runner: ScriptRunner,
        start: Candidate,
        kernel: str,
        deadline: float,
        limit: float,
        progress: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.runner, self.start, self.kernel = runner, start, kernel
        self.deadline, self.limit, self.progress = deadline, limit, progress
        self.tries = 0

    def run(self, options: Sequence[Setting], rounding: bool = False) -> Outcome:
        """Search among the settings that the kernel has. Where `rounding` may be all that is wrong, only what the script itself sets is
        taken away: any switch that adds up in another order could make such a comparison pass."""
        open_to_us = [s for s in options if s.switch.kind not in FIXED and s.without not in OURS]
        own = [setting for setting in open_to_us if setting.without]
        others = [] if rounding else [s for s in open_to_us if not s.without]
        harmless = together([s for s in others if s.effect is not Effect.CHANGES])
        try:
            found = self._own(own) or self._harmless(harmless)
        except OutOfBudget:
            return Outcome("the time for experiments ran out before any switch made the values right", None, self.tries)
        if found is None:
            return Outcome(f"no switch makes the values right ({self.tries} runs)", None, self.tries)
        if not self._holds(found):
            return Outcome(f"{found.text} made the values right, and not each time", None, self.tries)
        return Outcome(f"the values are right with {found.text} ({self.tries} runs)", found, self.tries)

    def _own(self, own: Sequence[Setting]) -> Helpful | None:
        chosen = next((setting for setting in own if self._right([setting])), None)
        return Helpful((chosen,), own=True) if chosen else None

    def _harmless(self, harmless: Sequence[Setting]) -> Helpful | None:
        if not harmless:
            return None
        if self._right(harmless):
            kept, _ = minimize(harmless, lambda some: bool(some) and self._right(some))
            return Helpful(tuple(kept), own=False)
        alone = next((setting for setting in harmless if self._right([setting])), None)
        return Helpful((alone,), own=False) if alone else None

    def _right(self, chosen: Sequence[Setting]) -> bool:
        """Whether the script comes to its end with these settings, and everything it compares agrees. Raises `OutOfBudget`."""
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfBudget
        self.progress(f"compiling {self.kernel} with " + ", ".join(setting.text for setting in chosen))
        return self._passes(chosen, min(self.limit, left), again=False)

    def _passes(self, chosen: Sequence[Setting], seconds: float, again: bool) -> bool:
        self.tries += 1
        candidate = replace(self.start, settings=self._written(chosen))
        shown = (self.runner.again if again else self.runner.run)(candidate, seconds)
        return read(read_events(shown.directory), shown.status, self.runner.blob).passes

    def _holds(self, found: Helpful) -> bool:
        """Whether it comes out the same once more, with the settings and without."""
        right = all(self._passes(found.settings, self.limit, again=True) for _ in range(AGAIN))
        return right and not self._passes((), self.limit, again=True)

    def _written(self, chosen: Sequence[Setting]) -> str:
        """The settings as the harness reads them (`harness/capture.py`)."""
        if not chosen:
            return ""
        configs = {key: value for setting in chosen for key, value in setting.config.items()}
        return json.dumps(
            {
                "kernel": self.kernel,
                "configs": configs,
                "without": [setting.without for setting in chosen if setting.without],
                "changes": [setting.change.as_json() for setting in chosen if setting.change is not None],
            },
            sort_keys=True,
        )


def written_at(source: str, key: str) -> int | None:
    """The line of a script that sets a pass config, by its name or as a member of `PassConfigKey`, if there is just one."""
    member = key.upper().replace(".", "_")
    found = {
        node.lineno
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Constant) and node.value == key)
        or (isinstance(node, ast.Attribute) and node.attr == member)
    }
    return found.pop() if len(found) == 1 else None
