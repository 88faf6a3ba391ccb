"""Policies that share the pulls of a stage among arms: problems with `repeat`."""
