"""`python -m triage`: the working directory leaves `sys.path` first, so that no file of the subject is ever imported."""

import os
import sys

if not sys.flags.safe_path:
    try:
        here = os.getcwd()
    except OSError:  # the working directory was removed: nothing can be imported from it
        here = ""
    sys.path[:] = [path for path in sys.path if os.path.isabs(path) and path != here]

from triage.cli import main

if __name__ == "__main__":
    sys.exit(main())
