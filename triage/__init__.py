"""triage: rule-based, automated triage of TileLang kernels."""

__version__ = "0.1.0"
