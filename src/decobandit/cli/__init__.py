"""The `deco` program. Commands parse, call one function, print; they import late to start fast."""

from .app import main

__all__ = ["main"]
