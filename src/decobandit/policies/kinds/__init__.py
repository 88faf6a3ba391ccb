"""Policies for arms whose outcomes are not good or bad: of any kind, in one problem."""
