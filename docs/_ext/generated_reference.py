"""Writes the pages that come from elsewhere: Python, command line, JSON, REST, and the article.

They go to `reference/generated`, which is not kept. A page that has not changed is not written, so
that Sphinx does not read it again.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import api_reference
import article
import command_reference
import json_reference
import rest_reference


def pages() -> dict[str, str]:
    """All generated pages by their paths under `reference/generated`."""
    texts = {f"api/{name}.md": api_reference.page(theme) for name, theme in _themes()}
    texts["commands.md"] = command_reference.page(command_reference.program())
    texts["json.md"] = json_reference.page(command_reference.program())
    texts["article.md"] = article.page()
    texts["rest.md"] = rest_reference.page(rest_reference.openapi())
    return texts


def _themes() -> list[tuple[str, api_reference.Theme]]:
    return list(api_reference.THEMES.items())


def write(folder: Path) -> None:
    for name, text in pages().items():
        target = folder / name
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


def setup(app: Any) -> dict[str, Any]:
    app.connect("builder-inited", lambda app: write(Path(app.srcdir) / "reference" / "generated"))
    app.connect("autodoc-process-signature", api_reference.short_signature)
    app.connect("autodoc-process-docstring", api_reference.split_attributes, priority=400)
    app.connect("autodoc-skip-member", api_reference.skip_member)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
