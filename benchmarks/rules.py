"""What reading and searching with all rules costs, as ratios measured in one run: `python benchmarks/rules.py`.

* load: what a fresh process spends to read the rules, and then to make them one search (bar: 0.06 s to read 300);
* scan: `Scanner.scan` over a log, against a loop of `re` that tries every rule on every line, and against `ripgrep`, where
  it is installed, on the same expressions (bar: 200 MB/s on a log in which nothing matches).

Where there are fewer than 300 rules, copies of them are added: the same words behind `copy`, under other codes. All times are
of the processor, so that what else the machine does counts little; of several rounds the best one counts.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import cycle, pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from triage.knowledge.fixtures import MARK  # noqa: E402
from triage.knowledge.load import load_rules  # noqa: E402
from triage.knowledge.rule import RuleSet  # noqa: E402
from triage.knowledge.scan import Scanner  # noqa: E402

RULES = 300
LOG_BYTES = 32_000_000
#: A loop over every rule and line is so slow that a part of the log must do.
LOOP_BYTES = 400_000
#: Read the rules and make them one search, in a process of its own.
START = """
import time
from triage.knowledge.load import load_rules
import triage.knowledge.scan
start = time.process_time()
rules = load_rules()
read = time.process_time()
rules.scanner.possible("T.gemm K shape check failed: K_A = 32, K_B = 128")
print(read - start, time.process_time() - read, len(rules))
"""
LOAD_BAR, SCAN_BAR = 0.06, 200.0
#: Lines as they stand in logs of kernels that work; `%d` becomes a number.
CLEAN = (
    "2026-03-01 12:00:%d  [TileLang:tilelang.jit.kernel:INFO]: TileLang begins to compile kernel `matmul` with `out_idx=[2]`",
    "ptxas info    : Used %d registers, used 1 barriers, 400 bytes cmem[0]",
    "  for (int i = 0; i < %d; ++i) { *(float4*)(C + (((int)blockIdx.x * 16384) + (i * 512))) = *(float4*)(C_local + i); }",
    "step %d: loss 0.314159 grad_norm 1.2345 lr 3.000e-04 tokens/s 123456.7",
    "        C_local = T.alloc_fragment((%d, 128), 'float32')",
    "tests/test_matmul.py::test_tile[%d-float16] PASSED [ 42%]",
    '  File "/home/user/kernels/matmul.py", line %d, in main',
    "    result = run_regression(make_inputs(%d), expected=reference)",
    "WARNING: the tile of the shared buffer is %d wide, expected 64",
    " 42%|████████      | %d/999 [00:12<00:21, 46.51it/s]",
    "I0301 12:00:01.%d 4711 launcher.cc:214] stream 0: kernel finished, value 17, index 3",
    "",
)


def enlarged(root: Path, folder: Path) -> Path:
    """A rules folder with at least `RULES` rules: the shipped ones, and copies where those are too few."""
    target = folder / "rules"
    shutil.copytree(root, target)
    files = sorted(path for path in target.glob("*/TL*.toml"))
    numbers = dict.fromkeys("GCPIE", 999)
    missing = max(0, RULES - len(files))
    for path in (path for path, _ in zip(cycle(files), range(missing), strict=False)):
        text, (code, name) = path.read_text("utf-8"), path.stem.split("-", 1)
        copy = f"TL{code[2]}{numbers[code[2]]:03d}"
        numbers[code[2]] -= 1
        text = text.replace(f'"{code}"', f'"{copy}"', 1).replace(f'"{name}"', f'"{name}-{copy.lower()}"', 1)
        text = re.sub(r"^text = '''(.*)'''$", r"text = '''copy (?:\1)'''", text, count=1, flags=re.MULTILINE)
        path.with_name(f"{copy}-{name}-{copy.lower()}.toml").write_text(text, "utf-8")
    print(f"{len(files)} rules" + (f", and {missing} copies of them" if missing else ""))
    return target


def decisive_lines(root: Path) -> list[str]:
    """The marked lines of the hits."""
    found = []
    for path in sorted(root.glob("*/*/hit-*.log")):
        lines = path.read_text("utf-8").splitlines()
        found += [line for line, below in pairwise(lines) if below.startswith(MARK)]
    return found


def log(size: int, matching: list[str]) -> str:
    """Lines of `CLEAN`; if there are any, one of `matching` in the place of every hundredth."""
    lines, length, wrong = [], 0, cycle(matching or [""])
    for number, line in enumerate(cycle(CLEAN)):
        shown = next(wrong) if matching and number % 100 == 99 else line.replace("%d", str(number * 7919 % 1000))
        lines.append(shown)
        length += len(shown) + 1
        if length >= size:
            return "\n".join(lines) + "\n"
    raise AssertionError


def best(rounds: int, work: Callable[[], object], clock: Callable[[], float] = time.process_time) -> float:
    """Seconds of the processor, of the best round."""
    times = []
    for _ in range(rounds):
        start = clock()
        work()
        times.append(clock() - start)
    return min(times)


def plain_loop(patterns: list[re.Pattern[str]], text: str) -> int:
    return sum(1 for line in text.splitlines() for pattern in patterns if pattern.search(line))


def of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ripgrep(patterns: list[str], folder: Path) -> Callable[[Path], None] | None:
    """Counts the lines of a file that match any expression; None without ripgrep. What it cannot read is left out."""
    program = shutil.which("rg")
    if program is None:
        print("ripgrep is not installed: it is not compared")
        return None
    read = [p for p in patterns if subprocess.run([program, "-e", p, "/dev/null"], capture_output=True).returncode == 1]
    if len(read) < len(patterns):
        print(f"ripgrep cannot read {len(patterns) - len(read)} of {len(patterns)} expressions: it does without")
    listed = folder / "patterns"
    listed.write_text("\n".join(read) + "\n", "utf-8")

    def count(path: Path) -> None:
        subprocess.run([program, "-j1", "-c", "-f", str(listed), str(path)], capture_output=True, check=False)

    return count


def measure_load(root: Path, folder: Path, rounds: int) -> None:
    """Print what a fresh process spends, in a copy of the package that has these rules and a cache folder of its own."""
    shutil.copytree(ROOT / "triage", folder / "triage", ignore=shutil.ignore_patterns("__pycache__"))
    env = {**os.environ, "PYTHONPATH": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    ways: list[tuple[float, float, int]] = []
    for _ in range(rounds + 1):
        out = subprocess.run(
            [sys.executable, "-c", START], cwd=folder, env=env, capture_output=True, text=True, check=True
        ).stdout
        read, search, count = out.split()
        ways.append((float(read), float(search), int(count)))
    (first, first_search, count), later = ways[0], ways[1:]
    read, search = min(way[0] for way in later), min(way[1] for way in later)
    share = read * RULES / count
    verdict = "within" if share <= LOAD_BAR else "above"
    print(
        f"read {count} rules: {read * 1000:.0f} ms, so {RULES} in {share * 1000:.0f} ({verdict} {LOAD_BAR * 1000:.0f})",
        end="",
    )
    print(f"; the first time {first * 1000:.0f} ms")
    print(f"make them one search: {search * 1000:.0f} ms; the first time {first_search * 1000:.0f} ms")


def measure_scan(name: str, text: str, rules: RuleSet, rounds: int, grep: Callable[[Path], None] | None) -> float:
    """Print the speeds on one log; ours in MB/s."""
    raw = text.encode()
    scanner = Scanner(rules)
    found = sum(1 for _ in scanner.scan(raw))
    ours = len(raw) / 1e6 / best(rounds, lambda: sum(1 for _ in scanner.scan(raw)))
    patterns = [re.compile(re.sub(r"\(\?P<\w+>", "(?:", r.match.text), re.M) for r in rules if r.match.text]
    part = text[:LOOP_BYTES]
    loop = len(part.encode()) / 1e6 / best(1, lambda: plain_loop(patterns, part))
    print(f"{name}: {len(raw) / 1e6:.0f} MB, {found} matches: {ours:.0f} MB/s; {ours / loop:.0f} times `re`", end="")
    if grep:
        with tempfile.NamedTemporaryFile("wb") as file:
            file.write(raw)
            file.flush()
            theirs = len(raw) / 1e6 / best(rounds, lambda: grep(Path(file.name)), of_children)
        print(f", {ours / theirs:.2f} times ripgrep", end="")
    print(flush=True)
    return ours


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rules", type=Path, default=ROOT / "rules", help="another rules folder than the shipped one")
    options = parser.parse_args()
    rounds, root = options.rounds, options.rules
    with tempfile.TemporaryDirectory() as folder:
        target = enlarged(root, Path(folder))
        measure_load(target, Path(folder), rounds)
        rules = load_rules(target)
        grep = ripgrep([re.sub(r"\(\?P<\w+>", "(?:", r.match.text) for r in rules if r.match.text], Path(folder))
        clean = measure_scan("clean log", log(LOG_BYTES, []), rules, rounds, grep)
        measure_scan("1 % of the lines match", log(LOG_BYTES, decisive_lines(root)), rules, rounds, grep)
    print(f"clean log: {'within' if clean >= SCAN_BAR else 'below'} the bar of {SCAN_BAR:.0f} MB/s")


if __name__ == "__main__":
    main()
