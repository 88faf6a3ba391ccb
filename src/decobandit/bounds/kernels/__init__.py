"""Compiled loops of `bounds` over arrays and scalars; notations: `arm.kernels`."""
