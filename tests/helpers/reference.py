"""Numbers to test against: `reference.json`, published or computed by independent programs."""

import json
from pathlib import Path
from typing import Any

REFERENCE: dict[str, Any] = json.loads(
    Path(__file__).with_name("reference.json").read_text(encoding="utf-8")
)
