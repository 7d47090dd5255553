"""Published eviction methods, as kvpress has them: kept sets, bytes held, answers at matched budgets."""
