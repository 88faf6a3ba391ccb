"""What every request passes through, one file per concern."""
