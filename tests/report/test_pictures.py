"""Small drawings among the artifacts stand in the report, and a report without them is one, too."""

from __future__ import annotations

from report_samples import GEMM, sample

from triage.report.markdown import render


def test_a_picture_is_drawn_in_a_fence_with_what_it_is() -> None:
    report = sample(GEMM)
    assert "## Pictures" not in render(report)
    report["artifacts"][0]["picture"] = "##..\n``` # no heading"
    page = render(report)
    assert "## Pictures\n\nstderr, `steps/1/stderr`:\n\n````text\n##..\n``` # no heading\n````" in page
