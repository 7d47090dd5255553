"""Deployed rules of eviction as pure functions of what they may see."""
