"""Compiled loops of `simulation` over arrays and scalars; notations: `arm.kernels`."""
