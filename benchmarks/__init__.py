"""Benchmarks: `python -m benchmarks [NAME ...]` runs bench_NAME.py, or all of them in order.

A benchmark is a module bench_*.py with a function `run()` that returns rows. What stands beside our
figure is measured in the same run, or is the limit that we have set ourselves.
"""
