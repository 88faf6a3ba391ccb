"""Compiled loops of `evaluation` over arrays and scalars; notations: `arm.kernels`."""
