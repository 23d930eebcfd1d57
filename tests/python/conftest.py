"""Settings shared by all Python tests; the time limits are in pyproject.toml."""

from hypothesis import settings

# Time per example is the business of the benchmarks, and a failure seen in CI should be seen
# again on the next run: examples are derived from the test itself, not drawn anew.
settings.register_profile("feedline", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("feedline")
