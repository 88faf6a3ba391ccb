"""The pages: plan, run, explain and audit a trial."""
