"""The knowledge: rule files, how they are read and matched, and the findings they yield. Pure but for reading `rules/`."""
