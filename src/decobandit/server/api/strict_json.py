"""Bodies of requests are strict JSON."""

from ...support.validation import MAX_DEPTH, JsonError, parse

__all__ = ["MAX_DEPTH", "JsonError", "parse"]
