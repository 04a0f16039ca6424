"""How much of what TileLang can print reaches a rule: `docs/coverage.md`, and lists for those who write rules.

    python -m triage.knowledge.coverage                     the page
    python -m triage.knowledge.coverage --missing src/op/   sites below a path that speak about the author's program and have no rule
    python -m triage.knowledge.coverage --rule TLG014       the sites that one rule accepts

Every site is spelled with operands filled in, as an error with its raising frame, and tried by every rule. A site has a rule if
one accepts each spelling, and if what the rule says has an operand of the text in it or names the object that the text is
about. What a rule asks of facts outside the text is taken as given: no site can show it.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triage import conditions
from triage.knowledge.files import PLACEHOLDER, rules_root
from triage.knowledge.fixtures import fixture_paths
from triage.knowledge.load import load_rules
from triage.knowledge.match import Record, raised_where, record_of_error, search, typed
from triage.knowledge.rule import Rule, RuleSet
from triage.knowledge.scan import Scanner
from triage.knowledge.sites import Site, Sites
from triage.model import STAGES, ErrorRecord, Frame

#: Spellings of a site that a rule must accept: three kinds of operands, so that none matches one spelling by chance.
SPELLINGS = 3
#: Sites that a rule may accept without an argument in its own file.
WIDE = 40
SEED = 15
#: What triage said of the labelled corpora; only a checkout has it.
ANSWERS = Path(__file__).resolve().parents[2] / "fixtures" / "answers.json"

_OPERAND = re.compile(r"\{([^{}]*)\}")
_NUMBERS = ("16", "24", "32", "64", "100", "128", "256", "3", "2", "1", "0")
_ANYTHING = (
    *_NUMBERS,
    "n",
    "A_shared",
    "float16",
    "(i * 2 + 1,)",
    "[64, 32]",
    "shared.dyn",
    "<class 'int'>",
    "n // 128 + 1",
)
_BY_NAME: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"type\(|__class__|__name__", ("<class 'int'>", "<class 'NoneType'>", "Buffer")),
    (r"dtype|_type\b", ("float16", "bfloat16", "float8_e4m3", "int4", "float32x4")),
    (r"scope", ("shared.dyn", "local.fragment", "global", "local")),
    (r"[tT]arget|arch\b", ('{"kind":"cuda","arch":"sm_90a"}', "sm_80", "cuda")),
    (r"shape|extents|strides|indices|\bsize\b$", ("[64, 32]", "(128, n)", "[128]")),
    (r"size\(\)|len\(|num_|_size|threads|lanes|bits|extent|stage|rank|ndim|dim|axis|index|warp|^[MNKabmnk]$|block|count|factor|width|value", _NUMBERS),
    (r"name|buffer|\b(src|dst|var|arg|tensor|buf)\b", ("A_shared", "C_local", "x", "acc_s")),
    (r"op\b|call|expr|stmt|Ref", ("tl.tileop.gemm", "T.copy(A, B)", "i * 2 + j")),
)  # fmt: skip
#: what an object looks like in a text: `T.copy`, `tl.reduce`, `wgmma`, `ProducerConsumerWS`, `TCGEN5MMA`
_OBJECT = re.compile(
    r"\b(?:T|tl|ptx|torch|tilelang)[._]\w+|\b\w+_\w+\b|\b[A-Z][a-z]+[A-Z]\w*|\b[A-Z]{2,}\w*|\b[a-z]+\d+\w*"
)


@dataclass(frozen=True)
class Accepted:
    """A site and a rule that accepts it; `bound` says whether the claim tells anything of this text."""

    site: Site
    rule: Rule
    bound: bool


@dataclass(frozen=True)
class Coverage:
    sites: Sites
    accepted: tuple[Accepted, ...]

    def of_rule(self, code: str) -> list[Site]:
        return [one.site for one in self.accepted if one.rule.code == code]

    def covered(self) -> set[Site]:
        """The sites that count as having a rule of their own."""
        return {one.site for one in self.accepted if one.bound}

    def missing(self) -> list[Site]:
        """The sites that speak about the author's program and have none."""
        covered = self.covered()
        return [site for site in self.sites if site.author and site not in covered]

    def widest(self, count: int = 10) -> list[tuple[str, int]]:
        return Counter(one.rule.code for one in self.accepted).most_common(count)


def measure(sites: Sites, rules: RuleSet) -> Coverage:
    accepted = []
    scanner = Scanner(rules.on("error"))
    for site in sites:
        spelled = [error_of(site, number) for number in range(SPELLINGS)]
        records = [record_of_error(error, site.stage) for error in spelled]
        possible = scanner.possible(records[0].text or "")
        for rule in rules.on("error"):
            if rule.match.text is None or rule.code not in possible:
                continue
            values = [accepts(rule, record) for record in records]
            if all(value is not None for value in values):
                bound = all(
                    is_bound(rule, value or {}, record.text or "")
                    for value, record in zip(values, records, strict=True)
                )
                accepted.append(Accepted(site, rule, bound))
    return Coverage(sites, tuple(accepted))


def accepts(rule: Rule, record: Record) -> dict[str, Any] | None:
    """What the rule captures of the record, or None if text, raising frame, or a condition on these disagrees."""
    assert rule.match.text is not None and record.error is not None and record.text is not None
    found = search(rule.match.text, record.text)
    if found is None or raised_where(rule, record.error)[0] is False:
        return None
    captures = {name: typed(value) for name, value in found.groupdict().items() if value is not None}
    values: Mapping[str, Any] = {**record.fields, **captures}
    asked = [c for c in rule.match.when if c.fact in values]
    if not all(conditions.holds(c, values).holds for c in asked):
        return None
    if any(conditions.holds(c, values).holds for c in rule.match.unless if c.fact in values):
        return None
    return captures


def is_bound(rule: Rule, captures: Mapping[str, Any], text: str) -> bool:
    """Whether the rule's words tell an operand of this text, or name an object that it names."""
    said = f"{rule.title} {rule.claim.says}"
    if any(captures.get(name) is not None for name in PLACEHOLDER.findall(said)):
        return True
    return bool({word.lower() for word in _OBJECT.findall(text)} & {word.lower() for word in _OBJECT.findall(said)})


def error_of(site: Site, number: int = 0) -> ErrorRecord:
    """The site as a run prints it, with the raising frame as far as TileLang prints one."""
    rng = random.Random(f"{SEED} {site.file} {site.line} {number}")
    text = spell(site.template, rng, by_name=number > 0)
    if site.type == "static_assert":
        return ErrorRecord("compiler", "nvcc", f'error: static assertion failed with "{text}"')
    return ErrorRecord("exception", site.type, text, frames=_frames(site))


def spell(template: str, rng: random.Random, by_name: bool) -> str:
    """The template with operands: of a kind that fits their expression, or any."""
    return _OPERAND.sub(
        lambda match: rng.choice(_operands(match[1]) if by_name or match[1] in "ab" else _ANYTHING), template
    )


def _operands(expression: str) -> Sequence[str]:
    return next((values for pattern, values in _BY_NAME if re.search(pattern, expression)), _ANYTHING)


def _frames(site: Site) -> tuple[Frame, ...]:
    if site.file.startswith("tilelang/"):
        function = site.function.rpartition(".")[2]
        return (Frame(f"/home/user/venv/lib/python3.11/site-packages/{site.file}", site.line, function, user=False),)
    generated = site.type == "RuntimeError" and site.stage == "call"
    if generated:  # the check is part of the kernel's host code and has no frame
        return ()
    logged = site.check is None and site.type == "InternalError"
    file, line = ("<unknown>", 0) if logged else (f"/project/{site.file}", site.line)
    return (Frame(file, line, f"tvm::tl::{site.function}", lang="cxx", user=False),)


def page(coverage: Coverage, rules: RuleSet, answers: Sequence[Mapping[str, Any]]) -> str:
    """The text of `docs/coverage.md`. `answers` are those of `fixtures/answers.json`."""
    covered = coverage.covered()
    by_stage: dict[str | None, list[Site]] = defaultdict(list)
    for site in coverage.sites:
        by_stage[site.stage].append(site)
    authors = [site for site in coverage.sites if site.author]
    own = sum(site in covered for site in authors)
    lines = [
        "# What the rules cover",
        "",
        "Generated by `python -m triage.knowledge.coverage`; do not edit. A *site* is a place where TileLang 0.1.15 raises an error.",
        "",
        f"{own} of the {len(authors)} sites that speak about the author's program have a rule of their own ({own / len(authors):.0%}).",
        "",
        "| stage | sites | about the program | of these with a rule | others with a rule | stage only | no text of their own |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    order = sorted(by_stage, key=lambda stage: STAGES.index(stage) if stage else len(STAGES))
    for stage in order:
        sites = by_stage[stage]
        author = [site for site in sites if site.author]
        with_rule, others = sum(s in covered for s in author), sum(s in covered for s in sites if not s.author)
        mute = sum(not site.pieces.fixed for site in sites)
        rest = len(sites) - with_rule - others - mute
        cells = (stage or "none", len(sites), len(author), with_rule, others, rest, mute)
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    lines += [
        "",
        f"The widest rules (above {WIDE} sites a rule argues for itself in its own file):",
        "",
        "| rule | sites |",
        "|---|---:|",
    ]
    lines += [f"| {code} | {count} |" for code, count in coverage.widest()]
    lines += ["", *_per_rule(coverage, rules, answers)]
    return "\n".join(lines) + "\n"


def _per_rule(coverage: Coverage, rules: RuleSet, answers: Sequence[Mapping[str, Any]]) -> list[str]:
    """A row for each rule: fixtures, sites, and how often it was the verdict on a labelled case, and rightly."""
    said = Counter((a["corpus"], a["rule"]) for a in answers)
    right = Counter((a["corpus"], a["rule"]) for a in answers if a["verdict"] == "right")
    sites = Counter(one.rule.code for one in coverage.accepted)
    lines = [
        "How often each rule was the verdict on a labelled case, and how often the category was right then (`python",
        "benchmarks/knowledge.py`); `hits` are the fixtures beside it. A rule without cases is held by its hits and misses alone.",
        "",
        "| rule | hits | sites | kernels | right | public reports | right |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for rule in rules:
        hits = len([p for p in fixture_paths(rule) if p.name.startswith("hit-")])
        cells: list[object] = [f"{rule.code} {rule.name}", hits, sites[rule.code]]
        for corpus in ("kernels", "reports"):
            cells += [said[corpus, rule.code] or "", right[corpus, rule.code] if said[corpus, rule.code] else ""]
        lines.append("| " + " | ".join(str(cell) for cell in cells) + " |")
    total: Counter[str] = Counter()
    true: Counter[str] = Counter()
    for (corpus, rule_code), count in said.items():
        if rule_code is not None:
            total[corpus] += count
            true[corpus] += right[corpus, rule_code]
    lines.append(f"| all | | | {total['kernels']} | {true['kernels']} | {total['reports']} | {true['reports']} |")
    return lines


def show_missing(coverage: Coverage, below: str) -> str:
    sites = [site for site in coverage.missing() if site.file.startswith(below)]
    return "".join(f"{_shown(site)}\n" for site in sites) + f"{len(sites)} sites without a rule\n"


def show_rule(coverage: Coverage, code: str) -> str:
    found = [one for one in coverage.accepted if one.rule.code == code]
    marks = [("" if one.bound else "claim says nothing of it: ") + _shown(one.site) for one in found]
    return "".join(f"{mark}\n" for mark in marks) + f"{len(found)} sites\n"


def _shown(site: Site) -> str:
    about = "" if site.author else "internal "
    return f"{site.file}:{site.line} {site.function} [{about}{site.stage}] {site.type}: {site.template!r}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m triage.knowledge.coverage")
    parser.add_argument("--missing", metavar="PATH", help="list the sites below a path that have no rule")
    parser.add_argument("--rule", metavar="CODE", help="list the sites that a rule accepts")
    args = parser.parse_args(arguments)
    rules = load_rules()
    coverage = measure(Sites.load(rules_root() / "reference" / "sites.jsonl"), rules)
    if args.missing is not None:
        sys.stdout.write(show_missing(coverage, args.missing))
    elif args.rule:
        sys.stdout.write(show_rule(coverage, args.rule))
    else:
        sys.stdout.write(page(coverage, rules, json.loads(ANSWERS.read_text("utf-8"))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
