"""Compiled loops of `policies` over arrays and scalars; notations: `arm.kernels`."""
