"""The CPU twin against a GPU: `python benchmarks/twin_on_gpu.py OUT.jsonl SCRIPT…`, on a machine with a GPU.

Every script runs as it is, in a process of its own. For the first launches of each of its kernels the arguments are copied, the
GPU computes, the twin computes the same from the copies, and one line says how far apart each buffer is: the rms of the difference
over the rms of the twin's values, elements that are NaN on one side only, and whether anything on either side was left unwritten.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).resolve().parents[1] / "triage" / "harness"
#: launches of one kernel that are compared
LAUNCHES = 2
#: seconds that one script may take
LIMIT = 120


def main() -> int:
    out, scripts = Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]
    lines: list[dict[str, Any]] = []
    for script in scripts:
        began = time.monotonic()
        command = [sys.executable, __file__, "--one", str(script.resolve()), str(out.resolve()) + ".part"]
        try:
            status: int | str = subprocess.run(
                command, cwd=script.parent, timeout=LIMIT, capture_output=True, check=False
            ).returncode
        except subprocess.TimeoutExpired:
            status = "timed out"
        part = Path(f"{out}.part")
        told = [json.loads(line) for line in part.read_text("utf-8").splitlines()] if part.exists() else []
        part.unlink(missing_ok=True)
        lines += [{"script": script.name, **line} for line in told]
        lines.append({"script": script.name, "exit": status, "seconds": round(time.monotonic() - began, 1)})
        worst = max((b["apart"] for line in told for b in line.get("buffers", ())), default=None)
        print(f"{script.name}: exit {status}, {len(told)} launches, worst {worst}", flush=True)
    out.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return 0


def one(script: str, out: str) -> None:
    """Run a script with its launches watched."""
    sys.path.insert(0, str(HARNESS))
    import boot

    boot.load_package(str(HARNESS))
    sys.path.pop(0)
    from _triage_harness.virtual.computed import copied
    from tilelang.jit.kernel import JITKernel

    original = JITKernel.__call__
    counts: dict[int, int] = {}

    def call(kernel: Any, *args: Any, **options: Any) -> Any:
        counts[id(kernel)] = counts.get(id(kernel), 0) + 1
        if counts[id(kernel)] > LAUNCHES:
            return original(kernel, *args, **options)
        before = copied(args)
        result = original(kernel, *args, **options)
        told = _compared(kernel, before, args, result)
        with open(out, "a", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")
        return result

    JITKernel.__call__ = call
    sys.argv = [script]
    sys.path.insert(0, os.path.dirname(script))
    runpy.run_path(script, run_name="__main__")


def _compared(kernel: Any, before: list[Any], args: tuple[Any, ...], result: Any) -> dict[str, Any]:
    import torch
    from _triage_harness import twin
    from _triage_harness.outputs import returned
    from _triage_harness.virtual.computed import NotComputed, as_arrays, in_order, on_twin
    from _triage_harness.virtual.signature import signature

    torch.cuda.synchronize()
    func = kernel.prim_func
    outputs = [index % len(func.params) for index in kernel.adapter.result_idx or ()]
    known = signature(func, outputs)
    told: dict[str, Any] = {"kernel": known.kernel}
    results = returned(result)[: len(outputs)]
    fresh = [torch.empty_like(value, device="cpu") for value in results]
    theirs, mine = in_order(known, args, results), in_order(known, before, fresh)
    try:
        arrays = as_arrays(known, before, fresh)
        began = time.monotonic()
        outcome = on_twin(func, known, arrays)
        told["seconds"] = round(time.monotonic() - began, 3)
        told["happenings"] = sorted({f"{h.kind} {h.buffer}" for h in outcome.happenings})
    except (twin.Unsupported, NotComputed) as why:
        return {**told, "unsupported": str(why)}
    except Exception as error:  # noqa: BLE001 - a fault of the interpreter is what this looks for
        return {**told, "failed": f"{type(error).__name__}: {error}"}
    pairs = [(p, m, t) for p, m, t in zip(known.parameters, mine, theirs, strict=True) if hasattr(t, "detach")]
    told["buffers"] = [_apart(p.name, p.dtype, m, t.detach().cpu()) for p, m, t in pairs]
    return told


def _apart(name: str, dtype: str, twin: Any, gpu: Any) -> dict[str, Any]:
    one, other = (
        twin.double() if twin.element_size() > 1 else twin.float().double(),
        gpu.float().double() if gpu.element_size() == 1 else gpu.double(),
    )
    both = one.isfinite() & other.isfinite()
    scale = float(one[both].square().mean().sqrt()) if bool(both.any()) else 0.0
    apart = float((one[both] - other[both]).square().mean().sqrt()) if bool(both.any()) else 0.0
    odd = int((one.isnan() != other.isnan()).sum())
    return {
        "name": name,
        "dtype": dtype,
        "apart": apart / scale if scale else apart,
        "nan": odd,
        "elements": one.numel(),
    }


if __name__ == "__main__":
    if sys.argv[1] == "--one":
        one(*sys.argv[2:])
    else:
        sys.exit(main())
