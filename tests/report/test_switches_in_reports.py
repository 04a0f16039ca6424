"""What a report tells of switches and passing neighbours, on the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from report_samples import LAYOUT, sample

from triage.model import Neighbour, SwitchSet, SwitchSetting
from triage.report import json_report, markdown, switch_page, terminal
from triage.report.schema import problems

STAGES = SwitchSetting("num_stages of the loop over k", "3", "0", "preserves", "the loop waits", "/home/user/k.py", 14)
ORDER = SwitchSetting("pipeline_order of the loop over n", "set", "left out", "preserves")
MATH = SwitchSetting("tl.enable_fast_math", "True", "unset", "reorders-floats")
SETS = (
    SwitchSet(
        (STAGES, ORDER),
        "preserves",
        ("tl.PipelinePlanning",),
        "the pass that fails, tl.P, is not run with it",
        "builds",
    ),
    SwitchSet((MATH,), "reorders-floats", (), "which pass is at fault is not shown by that"),
)
NEAR = (Neighbour("threads", "threads", "96", "128"),)
REPORT = sample(replace(LAYOUT, switches=SETS, neighbours=NEAR))


@pytest.mark.parametrize("render", [lambda report: terminal.render(report, width=400), markdown.render])
def test_both_pages_say_what_makes_the_fault_go_in_words(render) -> None:
    page = " ".join(render(REPORT).replace("\\", "").split())
    for told in (
        "num_stages of the loop over k = 0 (now 3, line 14) and pipeline_order of the loop over n left out the kernel builds",
        "the result stays the same; it governs tl.PipelinePlanning; the pass that fails, tl.P, is not run with it",
        "tl.enable_fast_math left unset (now True) the kernel lowers, and sums may be rounded otherwise; no pass is known",
    ):
        assert told in page, told
    assert "128" in page and "96" in page


def test_the_json_keeps_them_apart() -> None:
    report = json.loads(json_report.render(REPORT))
    assert problems(report) == []
    first, second = report["verdict"]["switches"]
    assert [s["what"] for s in first["settings"]] == [STAGES.what, ORDER.what] and first["level"] == "builds"
    assert second["passes"] == [] and second["effect"] == "reorders-floats"
    assert report["verdict"]["neighbours"] == [{"kind": "threads", "what": "threads", "was": "96", "now": "128"}]


def test_a_report_without_experiments_has_no_section_of_them() -> None:
    assert "EXPERIMENTS" not in terminal.render(sample(LAYOUT)) and "Experiments" not in markdown.render(sample(LAYOUT))


def test_the_table_of_bisect_shows_one_set_as_one() -> None:
    page = switch_page.render("kernel \x1b[31mk", "the fault goes", SETS, NEAR)
    rows = page.splitlines()
    head = next(n for n, row in enumerate(rows) if "passes that it governs" in row)
    assert rows[head + 1].split("  ")[1] == "1." and "tl.PipelinePlanning" in rows[head + 1]
    assert rows[head + 2].startswith("  and  pipeline_order") and rows[head + 3].startswith("  2.")
    assert rows[head + 3].endswith("none known")
    columns = [row.index("the result stays") for row in rows[head + 1 : head + 3]]
    assert columns[0] == columns[1] == rows[head].index("result")
    assert "\x1b" not in page and "threads 96 → 128" in page
