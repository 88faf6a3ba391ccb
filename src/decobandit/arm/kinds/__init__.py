"""The states of an arm of each kind, in rows: what values, indices and masses are computed on."""
