"""The paper's tables and figures, computed again: one file each, its numbers in published.toml."""
