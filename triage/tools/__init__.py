"""The tools of the decision graph: one module a tool, each with a `SPEC` and `run(work) -> Result`."""
