"""The built-in selectors."""

from ceiling.selectors import accumulated, geometry, mass, pages, recency, window
from ceiling.selectors.selector import Parameter, Selector
from ceiling.selectors.sight import READINGS

PAPER = "Shi & Gu, arXiv 2608.25230"

BALANCING = "balancing"
"""Scored beside the selectors, but no rule: top-mass improved by swaps, with sight of the values."""

SELECTORS: dict[str, Selector] = {
    selector.name: selector
    for selector in (
        Selector("top-mass", {"per-query": mass.top_mass}, frozenset(), f"{PAPER}, section 3"),
        Selector(
            "snapkv",
            dict.fromkeys(READINGS, window.snapkv),
            frozenset(READINGS),
            "Li et al., arXiv 2404.14469, section 4",
            {
                "window": Parameter(0),
                "kernel": Parameter(window.KERNEL, least=1, odd=True),
                "pooling": Parameter("max", choices=("max", "avg")),
            },
        ),
        Selector(
            "h2o",
            dict.fromkeys(READINGS, accumulated.h2o),
            frozenset(READINGS),
            "Zhang et al., arXiv 2306.14048, section 4",
        ),
        Selector(
            "quest",
            {"per-query": pages.quest},
            frozenset({"per-query"}),
            "Tang et al., arXiv 2406.10774, section 3",
            {"page": Parameter(0)},
        ),
        Selector(
            "quest-16",
            {"per-query": pages.quest},
            frozenset({"per-query"}),
            "Tang et al., arXiv 2406.10774, section 3; pages of 16 keys, their default",
            {"page": Parameter(16, least=1)},
            least=16,
        ),
        Selector(
            "streaming-llm",
            dict.fromkeys(READINGS, recency.streaming_llm),
            frozenset(),
            "Xiao et al., arXiv 2309.17453, section 3.2",
            {"sinks": Parameter(recency.SINKS)},
        ),
        Selector(
            "tova",
            dict.fromkeys(READINGS, mass.tova),
            frozenset({"cache"}),
            "Oren et al., arXiv 2401.06104, section 3",
        ),
        Selector("leverage", dict.fromkeys(READINGS, geometry.leverage), frozenset(), f"{PAPER}, section 3"),
        Selector("geometric", {"per-query": geometry.geometric}, frozenset(), f"{PAPER}, section 3"),
        Selector("group-vote", {"per-query": mass.group_vote}, frozenset(), PAPER),
    )
}
"""Every built-in selector by its name."""
