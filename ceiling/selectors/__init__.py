"""Deployed rules of eviction as pure functions of what they may see.

A rule takes a `Sight`, what may be seen of one KV head when it has to choose, and a number of keys, and
names as many positions. A `Selector` is a rule with its name, source, parameters and readings; its `keep`
gives the kept set of a budget. `KVHead` makes the sights of one KV head's sampled queries.

Two readings. *per-query*: chosen anew for each query with sight of it, for this query head alone. *cache*:
the tokens before the query have been prefilled, the rule evicts, and only then the query comes; one set for
all query heads of the KV head, scored by the mean over them. The paper gives no formula for the second;
this is our reading of it: the query's own key, just appended, is always held, and the rule chooses the
other ``s - 1``.
"""

from ceiling.selectors.kv_head import KVHead as KVHead
from ceiling.selectors.registry import SELECTORS as SELECTORS
from ceiling.selectors.resolve import resolve as resolve
from ceiling.selectors.selector import Rule as Rule
from ceiling.selectors.selector import Selector as Selector
from ceiling.selectors.sight import READINGS as READINGS
from ceiling.selectors.sight import Reading as Reading
from ceiling.selectors.sight import Sight as Sight

__all__ = ["READINGS", "SELECTORS", "KVHead", "Reading", "Rule", "Selector", "Sight", "resolve"]
