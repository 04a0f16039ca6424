"""Experiments on a changed script on a GPU: each candidate in a fresh process, one at a time.

A fork cannot use CUDA once its parent has, and after a device fault nothing in the process that met it can be trusted. So
nothing is reused here but compiled kernels on disk, which are known by their content. `process.py` holds the lock of the GPU
while a candidate runs.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from triage.experiment import process
from triage.experiment.client import TemplateError
from triage.experiment.same_fault import differing, start_of
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.knowledge.rule import RuleSet
from triage.knowledge.stages import Stages

#: resident memory of all processes of a candidate, in bytes: CUDA and its libraries alone take gigabytes
MEMORY_LIMIT = 64 << 30


class GpuRunner(ScriptRunner):
    """As `ScriptRunner`, on the machine's own GPU."""

    mode = "real"

    def __init__(self, directory: Path, script: Path, **options: Any) -> None:
        super().__init__(directory, script, **{"memory": MEMORY_LIMIT, **options, "jobs": 1})
        self.env.setdefault("TILELANG_CACHE_DIR", str(self.directory / "kernels"))
        self._waiting: collections.deque[str] = collections.deque()

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.ready = {"versions": self._versions()}
        self.look_around()
        return self

    @property
    def target(self) -> str:
        return f"cuda {self._seen_arch}" if self._seen_arch else "cuda"

    def send(self, request: Mapping[str, Any]) -> None:
        self._waiting.append(request["id"])

    def cancel(self, id: str) -> None:
        if id in self._waiting:
            self._waiting.remove(id)

    def ended(self, deadline: float) -> tuple[str, Path]:
        """Run the candidate that has waited longest; its own limit of time counts from when it has the GPU."""
        id = self._waiting.popleft()
        running = self._running[id]
        self._execute_cold(running.subject, running.directory, running.seconds)
        return id, running.directory / "result.json"

    def _versions(self) -> dict[str, str]:
        where = self.directory / "versions"
        process.run_command([self.python, str(process.HARNESS / "installed.py")], where, timeout=60.0)
        try:
            known: dict[str, str] = json.loads((where / "stdout").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise TemplateError(f"{self.python} does not run") from None
        return known


def virtual_is_enough(
    real: ScriptRunner, virtual: ScriptRunner, asked: Candidate, rules: RuleSet, stages: Stages, seconds: float = 300.0
) -> bool:
    """Whether the virtual device, which computes no values, shows the fault that the GPU shows: its forks cost far less."""
    seen = [runner.run(asked, seconds) for runner in (real, virtual)]
    on_gpu, without = (start_of(shown.errors, shown.status, rules, stages) for shown in seen)
    return on_gpu is not None and on_gpu.comparison is None and without is not None and not differing(on_gpu, without)
