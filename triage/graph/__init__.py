"""The decision graph: load it, check it, draw it, and walk it.

The graph only decides what to measure next; findings come from rules. `walker` holds the idea: a pure function from a
state and an event to the next state and one effect.
"""
