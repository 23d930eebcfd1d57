"""How long tests wait for what must come."""

# Seconds. Long enough for a machine that is busy with something else, and shorter than a test's
# time limit (pyproject.toml), so that the failure is where the wait is.
PATIENCE = 600
