"""Whether a patch restores what a script meant before a fault was put into it.

Three answers say yes: the text is the original's but for comments and layout (`same-syntax`); every kernel and the
host's part are the original's (`same-kernels`; threads, stages and names may differ); or both scripts, run on the CPU,
launch kernels with the same inputs and outputs and make the same comparisons (`same-results`), and do so, too, where
kernels are made to compute something else: a comparison of a result with itself does not. Whatever else is
`not-restored`, also what could not be run: a judge that is not sure must not acquit.
"""

from __future__ import annotations

import ast
import hashlib
import json
import math
import os
import subprocess
import sys
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mutate import kernels
from rewrite import Script

TWIN = Path(__file__).resolve().parent / "twin.py"
#: seconds for one script on the CPU; the healthy ones take 10
LIMIT = 180


@dataclass(frozen=True)
class Judgement:
    """`how` is same-syntax, same-kernels, same-results or not-restored; `why` says what differs."""

    how: str
    why: str = ""

    @property
    def restored(self) -> bool:
        return self.how != "not-restored"


class PatchError(Exception):
    """A patch that does not apply, or leaves a text that is no Python."""


class Judge:
    """Judges patched scripts; what an original computes is kept in `folder` for the next patch of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._locks: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)

    def judge(self, original: Script, patched: Script) -> Judgement:
        """Raises `RuntimeError` if the original itself does not run on the CPU."""
        if not all(map(parses, patched.files.values())):
            return Judgement("not-restored", "the patched text is no Python")
        if same_text(original, patched):
            return Judgement("same-syntax")
        before = self.told(original)
        if before["end"] not in ("returned", "exited 0"):
            raise RuntimeError(f"{original.main} does not run on the CPU: {before['end']}")
        after = self.told(patched)
        if before["end"] != after["end"]:
            return Judgement("not-restored", f"on the CPU the patched script ends with {after['end']}")
        same_host = host_part(original) == host_part(patched)
        if same_host and before["kernels"] == after["kernels"]:
            return Judgement("same-kernels")
        why = difference(before, after)
        if not why and not same_host:
            why = difference(self.told(original, "spoiled"), self.told(patched, "spoiled"))
        return Judgement("not-restored", why) if why else Judgement("same-results")

    def told(self, script: Script, *how: str) -> dict[str, Any]:
        """What the script does on the CPU; run once."""
        name = hashlib.sha256(json.dumps([script.main, script.files, how], sort_keys=True).encode()).hexdigest()[:16]
        folder = self.folder / name
        with self._locks[name]:
            if not (folder / "told.json").is_file():
                run_on_cpu(script, folder, *how)
        told: dict[str, Any] = json.loads((folder / "told.json").read_text(encoding="utf-8"))
        return {**told, "folder": folder}


def run_on_cpu(script: Script, folder: Path, *how: str) -> None:
    """Run the script under `twin.py`; leaves `told.json` in the folder, whatever happens."""
    source = folder / "source"
    write(script, source)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TILELANG_", "TL_", "TVM_"))}
    try:
        done = subprocess.run(
            [sys.executable, str(TWIN), str(source / script.main), str(folder), *how],
            cwd=source, env=env, capture_output=True, text=True, timeout=LIMIT,
        )  # fmt: skip
        end = f"status {done.returncode}: {done.stderr[-500:]}"
    except subprocess.TimeoutExpired:
        end = f"no end within {LIMIT} s"
    if not (folder / "told.json").is_file():
        (folder / "told.json").write_text(json.dumps({"end": end, "kernels": [], "launches": [], "compares": []}))


def write(script: Script, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in script.files.items():
        (folder / name).write_text(text, encoding="utf-8")


def apply(patch: str, script: Script, folder: Path) -> Script:
    """The script with a unified diff applied, by `patch` itself, in a fresh folder; raises `PatchError`."""
    write(script, folder)
    strip = "1" if "\n--- a/" in f"\n{patch}" else "0"
    done = subprocess.run(
        ["patch", f"-p{strip}", "--batch", "--fuzz=0", "--no-backup-if-mismatch"],
        cwd=folder, input=patch, capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise PatchError(f"the patch does not apply: {done.stdout}{done.stderr}")
    after = Script(script.main, {name: (folder / name).read_text(encoding="utf-8") for name in script.files})
    if after.files == script.files:
        raise PatchError("the patch changes nothing")
    return after


# --------------------------------------------------------------------------------------------------------- same text


def parses(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def same_text(one: Script, other: Script) -> bool:
    return one.files.keys() == other.files.keys() and all(
        ast.dump(ast.parse(text)) == ast.dump(ast.parse(other.files[name])) for name, text in one.files.items()
    )


def host_part(script: Script) -> list[str]:
    """The syntax trees without what makes kernels: of such a function only the name and the parameters are left.

    What its decorators and defaults say shows in the kernels that come of it.
    """
    parts = []
    for _, text in sorted(script.files.items()):
        tree = ast.parse(text)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef) and any(True for _ in kernels(node)):
                node.body, node.decorator_list, node.args.defaults = [ast.Pass()], [], []
        parts.append(ast.dump(tree))
    return parts


# ------------------------------------------------------------------------------------------------------ same results


def difference(before: dict[str, Any], after: dict[str, Any]) -> str:
    """What two runs computed differently, in words; empty if nothing."""
    for what in ("kernels", "launches", "compares"):
        if len(before[what]) != len(after[what]):
            return f"{len(after[what])} {what} in place of {len(before[what])}"
    for one, other in zip(before["kernels"], after["kernels"], strict=True):
        for what in ("params", "target"):
            if one[what] != other[what]:
                return f"a kernel has the {what} {other[what]} in place of {one[what]}"
    for number, (one, other) in enumerate(zip(before["launches"], after["launches"], strict=True), 1):
        for part in ("args", "result"):
            why = unlike(one[part], other[part], before["folder"], after["folder"])
            if why:
                return f"launch {number}, {part}: {why}"
    for number, (one, other) in enumerate(zip(before["compares"], after["compares"], strict=True), 1):
        for part in ("actual", "expected", "tolerance"):
            why = unlike(one[part], other[part], before["folder"], after["folder"])
            if why:
                return f"comparison {number}, {part}: {why}"
        if (one["function"], one["passed"]) != (other["function"], other["passed"]):
            return f"comparison {number} is {other['function']}, passed: {other['passed']}"
    return ""


def unlike(one: Any, other: Any, folder: Path, other_folder: Path) -> str:
    """How two kept values differ; empty if they are alike."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        pairs = zip(one, other, strict=True)
        return next((why for a, b in pairs if (why := unlike(a, b, folder, other_folder))), "")
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        if "tensor" in one:
            import torch

            return unlike_tensors(torch.load(folder / one["tensor"]), torch.load(other_folder / other["tensor"]))
        return unlike([one[k] for k in sorted(one)], [other[k] for k in sorted(one)], folder, other_folder)
    return "" if one == other else f"{other} in place of {one}"


def unlike_tensors(one: Any, other: Any) -> str:
    """How two tensors differ beyond the rounding of another order of the same sums; empty if they do not.

    Integers must be equal. Floats may differ by half a unit roundoff of their type in the root mean square; float32 by
    32, because sums are kept in it. One wrong element of a million of usual size is more.
    """
    import torch

    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return f"{other.dtype} {tuple(other.shape)} in place of {one.dtype} {tuple(one.shape)}"
    if not one.is_floating_point():
        return "" if torch.equal(one, other) else f"{int((one != other).sum())} of {one.numel()} elements differ"
    a, b = one.double(), other.double()
    finite = torch.isfinite(a)
    if not torch.equal(finite, torch.isfinite(b)) or not torch.equal(a[~finite].nan_to_num(), b[~finite].nan_to_num()):
        return "other elements are infinite or no numbers"
    a, b = a[finite], b[finite]
    size, error = math.sqrt(float((a * a).sum())), math.sqrt(float(((a - b) ** 2).sum()))
    allowed = torch.finfo(one.dtype).eps * (0.5 if one.element_size() < 4 else 32)
    return "" if error <= allowed * size else f"relative error {error / size if size else math.inf:.2g}"
