"""Compiled loops of `prices` over arrays and scalars; notations: `arm.kernels`."""
