"""Compiled loops of `joint` over arrays and scalars; notations: `arm.kernels`."""
