"""Trials over HTTP: an API and pages. Needs the extra `server`."""
