"""The report: built once from what a case knows, then drawn in several formats from that one object."""
