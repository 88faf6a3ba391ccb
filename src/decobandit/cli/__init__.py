"""The `deco` program. Commands parse, call one function, print; they import late to start fast.

Options of problems and policies: `problem_options.py`; others: `options.py`; tables: `output.py`.
"""

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the program; Ctrl-C is no error, even while it is still being loaded."""
    try:
        from .app import run
    except KeyboardInterrupt:
        print("deco: interrupted", file=sys.stderr)
        raise SystemExit(INTERRUPTED) from None
    run()


__all__ = ["main"]
