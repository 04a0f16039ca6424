"""`python -m triage`: the working directory leaves `sys.path` first, so that no file of the subject is ever imported."""

import os
import sys

if not sys.flags.safe_path:
    here = os.getcwd()
    sys.path[:] = [path for path in sys.path if path and os.path.abspath(path) != here]

from triage.cli import main

if __name__ == "__main__":
    sys.exit(main())
