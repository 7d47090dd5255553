"""Hypothesis profiles: `fast` repeats itself exactly (CI), `thorough` searches anew each time."""

import os

from hypothesis import settings

settings.register_profile("fast", max_examples=50, deadline=None, derandomize=True, database=None)
settings.register_profile("thorough", max_examples=2_000, deadline=None)
settings.load_profile(os.environ.get("CEILING_HYPOTHESIS", "fast"))
