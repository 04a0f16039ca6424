"""How far upstream's example scripts get on the virtual device: `python benchmarks/virtual_device.py CHECKOUT`.

CHECKOUT is a folder with upstream's `examples/`. Every script there that a user would start is run unmodified with
its default arguments: files with a `__main__` part, or that call something at module level, which mention tilelang and
are neither tests nor benchmarks nor written for another backend; those for Blackwell (`sm100`, `sm120`, `tcgen05` in the
path) only with `--arch sm_100a` or `sm_120a`. Prints a table and writes JSON.

For each script: kernels reached (a `kernel` event that a compile followed), kernels compiled (lowered, and by nvcc),
whether it ran to its end, seconds, and what stopped it.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HARNESS = Path(__file__).resolve().parent.parent / "triage" / "harness"
#: folders of examples for other hardware, and tools that are no kernels
OTHER = {"amd", "ascend", "metal", "autodd", "analyze", "plot_layout", "visual_layout_inference", "iket"}


#: what the path of an example says about the architecture it needs
BLACKWELL = {"sm_100a": re.compile(r"sm100|tcgen05"), "sm_120a": re.compile(r"sm120")}


def scripts(examples: Path, arch: str) -> list[Path]:
    """The scripts a user would start on a device of `arch`, in a fixed order."""
    return [
        path
        for path in sorted(examples.rglob("*.py"))
        if chosen(path.relative_to(examples), path.read_text()) and fits(str(path.relative_to(examples)), arch)
    ]


def fits(relative: str, arch: str) -> bool:
    if arch in BLACKWELL:
        return BLACKWELL[arch].search(relative) is not None
    return not any(pattern.search(relative) for pattern in BLACKWELL.values())


def chosen(relative: Path, source: str) -> bool:
    """Whether an example is measured (see the module's description)."""
    name = relative.name
    if set(relative.parts[:-1]) & OTHER or name.startswith(("test_", "_")) or name in ("conftest.py", "setup.py"):
        return False
    if name.startswith(("benchmark", "regression")) or re.search(
        r"(^|_)(amd|rocm|hip|npu|ascend|mps|metal)(_|\.)", name
    ):
        return False
    if "tilelang" not in source:
        return False
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return False
    return any(_starts(node) for node in tree.body)


def _starts(node: ast.stmt) -> bool:
    """Whether a statement of a module is its `if __name__ == "__main__"` part, or calls something for its effect."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call)
    return isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) and "__main__" in ast.unparse(node.test)


def measure(script: Path, arch: str, timeout: float, compile: bool, python: str) -> dict[str, Any]:
    """Run one script under the harness and read its events."""
    with tempfile.TemporaryDirectory(prefix="virtual-device-") as scratch:
        spec = {
            "script": str(script),
            "argv": [],
            "cwd": str(script.parent),
            "dir": scratch,
            "blobs": os.path.join(scratch, "blobs"),
            "mode": "virtual",
            "arch": arch,
            "target": {"kind": "cuda", "arch": arch},
            "call": None,
            "compile": compile,
        }
        path = os.path.join(scratch, "spec.json")
        Path(path).write_text(json.dumps(spec))
        output = os.path.join(scratch, "output")
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TILELANG_")}
        start = time.monotonic()
        with open(output, "wb") as file:
            process = subprocess.Popen(
                [python, str(HARNESS / "boot.py"), path],
                stdout=file,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                cwd=script.parent,
                env=environment,
                start_new_session=True,
            )
            code, processor = wait(process, timeout)
        seconds = time.monotonic() - start
        times = {"seconds": round(seconds, 2), "processor_seconds": round(processor, 2)}
        tail = Path(output).read_text(errors="replace")[-1500:]
        return summary(read_events(scratch), code) | times | {"tail": tail}


def wait(process: subprocess.Popen[bytes], timeout: float) -> tuple[int | str, float]:
    """Exit status (or "timeout") and the processor time of a process with all that it waited for (nvcc)."""
    deadline, code = time.monotonic() + timeout, None
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return code or process.returncode, usage.ru_utime + usage.ru_stime
        if time.monotonic() > deadline and code is None:
            os.killpg(process.pid, 9)
            code = "timeout"
        time.sleep(0.05)


def read_events(directory: str) -> list[dict[str, Any]]:
    found = []
    for path in sorted(Path(directory).glob("events-*.jsonl")):
        for line in path.read_text(errors="replace").splitlines():
            try:
                found.append(json.loads(line))
            except ValueError:
                continue  # a torn last line
    return found


def summary(events: list[dict[str, Any]], code: int | str) -> dict[str, Any]:
    """What one run reached, from its events."""
    kernels = {e["id"]: e.get("name") for e in events if e["type"] == "kernel" and e.get("compiled", True)}
    ended = [e for e in events if e["type"] == "compile.end"]
    failed = {e["kernel"]: e["phase"] for e in ended if e.get("ok") is False}
    done = {e["kernel"] for e in ended if e["phase"] in ("device", "codegen") and e.get("ok")}
    compiled = [k for k in kernels if k in done and k not in failed]
    # an error of a compile is reported once, as handled, and may still be what ends the script
    errors = [e for e in events if e["type"] == "error" and (code != 0 or not e.get("handled"))]
    final = errors[-1]["error"] if errors else {}
    place = next((f for f in reversed(final.get("frames", [])) if f.get("user")), {})
    return {
        "code": code,
        "ended": code == 0,
        "kernels": len(kernels),
        "compiled": len(compiled),
        "failed": {kernels[k] or k: phase for k, phase in failed.items() if k in kernels},
        "launches": sum(e["type"] == "launch.begin" for e in events),
        "stopped_by": f"{final.get('type')}: {str(final.get('message'))[:200]}" if final else None,
        "stopped_at": f"{os.path.basename(place['file'])}:{place['line']}" if place else None,
        "virtual": sorted({e["what"] for e in events if e["type"] == "virtual"}),
        "harness": [e["text"] for e in events if e["type"] == "warning" and e.get("origin") == "triage"],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=120)
    parser.add_argument("--no-compile", action="store_true", help="lower only, no nvcc")
    parser.add_argument("--only", default="", help="a regular expression on the path")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--json", type=Path, default=Path("virtual_device.json"))
    options = parser.parse_args()
    examples = options.checkout / "examples"
    paths = [p for p in scripts(examples, options.arch) if re.search(options.only, str(p.relative_to(examples)))]
    results: dict[str, Any] = {}

    def one(path: Path) -> tuple[str, dict[str, Any]]:
        return str(path.relative_to(examples)), measure(
            path, options.arch, options.timeout, not options.no_compile, options.python
        )

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(one, p) for p in paths]):
            name, result = future.result()
            results[name] = result
            print(row(name, result), flush=True)
            options.json.write_text(json.dumps(dict(sorted(results.items())), indent=1))
    print(totals(results))


def row(name: str, result: dict[str, Any]) -> str:
    state = "end" if result["ended"] else str(result["code"])
    why = "" if result["ended"] else f"  {result['stopped_at'] or ''} {(result['stopped_by'] or '')[:110]}"
    kernels = f"{result['compiled']}/{result['kernels']}"
    return f"{result['seconds']:7.1f} s  {kernels:>6} kernels  {state:>7}  {name}{why}".replace("\n", " ")


def totals(results: dict[str, Any]) -> str:
    rows = list(results.values())
    reached = sum(r["kernels"] for r in rows)
    compiled = sum(r["compiled"] for r in rows)
    ended = sum(r["ended"] for r in rows)
    median, processor = (statistics.median(r[k] for r in rows) if rows else 0 for k in ("seconds", "processor_seconds"))
    return (
        f"{len(rows)} scripts: {reached} kernels reached, {compiled} compiled, {ended} scripts ran to their end, "
        f"median {median:.1f} s ({processor:.1f} s of processor time)"
    )


if __name__ == "__main__":
    main()
