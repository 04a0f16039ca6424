"""Repairs of a script: proposed on its syntax tree, tried on a copy, and called verified only with evidence (docs/fixes.md)."""
