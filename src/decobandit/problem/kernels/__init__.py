"""Compiled loops of `problem` over arrays and scalars; notations: `arm.kernels`."""
