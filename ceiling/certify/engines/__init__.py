"""Three independent ways to decide whether some choice of integer vectors has a given sum."""
