"""Middleware for every request, one file per concern."""
