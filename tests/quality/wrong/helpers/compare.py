"""A comparison that prints one line and ends the script when it fails."""

import sys


def require_close(name, actual, expected, rtol, atol):
    error = (actual.float() - expected.float()).abs()
    bad = (~(error <= atol + rtol * expected.float().abs())).sum().item()
    print(f"{name}: {bad} of {error.numel()} elements off, largest error {error.max().item():.3e}")
    if bad:
        sys.exit(1)
