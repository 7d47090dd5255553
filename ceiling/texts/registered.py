"""Bounds on what a capture of task texts may show, written down before it runs and checked after."""

from types import MappingProxyType

BOUNDS = MappingProxyType(
    {
        # pooled over families and budgets, the median closable share
        "closable_median_max": 0.09,
        # 90th percentile of kappa on retrieval rows over that on background rows
        "headroom_ratio_max": 2,
        # share of retrieval rows with kappa > 1.11 where the pool's best set keeps a key of the facts
        # asked for that top-mass drops
        "value_aware_share_max": 0.05,
        # of the dropped mass as a predictor of kappa > 1.11
        "auc_min": 0.70,
        # share of (layer, head) cells with the same flat label on tasks and prose; the paper registers such a
        # bound without a number, this one is ours
        "map_agreement_min": 0.8,
        # share of the sampled queries that are retrieval rows
        "retrieval_share_min": 0.20,
    }
)
"""Ratios and shares; arXiv 2608.25230 registers them for its task-structured contexts."""
