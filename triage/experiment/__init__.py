"""Experiments: change one thing, run again, see whether it is the same fault. The only place that starts processes."""
