"""What is known of kvpress' presses before it is imported: names, parameters, roles, what cannot run."""

from dataclasses import dataclass

Value = bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a press: its name here, the field of the press that it sets, its type and default."""

    name: str
    field: str
    type: type
    default: Value


@dataclass(frozen=True, slots=True)
class Kind:
    """A press before its parameters are chosen.

    Attributes
    ----------
    name : str
    cls : str
        ``module:class``; empty for the anchor, which is no press.
    role : str
        ``real``, ``trivial`` (looks at no attention), ``anchor`` or ``other``.
    parameters : tuple of Parameter
    blind : bool
        The score of a key cannot depend on tokens after it: a question changes nothing.
    per_ratio : bool
        The scores may depend on the ratio, so they are taken for each anew.
    masks : bool
        As shipped it only hides keys and holds the full cache.
    route : str
        ``shared``: its scores come from one pass for all; ``native``: it needs a prefill of its own.
    over_snapkv : bool
        It wraps another press, here SnapKV.
    digest : str
        SHA-256 of the file of a user's press.
    """

    name: str
    cls: str
    role: str = "other"
    parameters: tuple[Parameter, ...] = ()
    blind: bool = False
    per_ratio: bool = True
    masks: bool = False
    route: str = "shared"
    over_snapkv: bool = False
    digest: str = ""


WINDOW = Parameter("window", "window_size", int, 64)
KERNEL = Parameter("kernel", "kernel_size", int, 5)
SINK = Parameter("n_sink", "n_sink", int, 4)
ALPHA = Parameter("alpha", "alpha_safeguard", float, 0.2)
EPSILON = Parameter("epsilon", "epsilon", float, 1e-4)
FIRST_STAGE = Parameter("first_stage_ratio", "first_stage_ratio", float, 0.5)

STORAGE = Parameter("storage", "", str, "mask")
"""Of adakv: ``mask`` holds the full cache, as kvpress does; ``ragged`` holds what is kept, by KV head."""

SEED = Parameter("seed", "", int, 0)

KINDS = {
    kind.name: kind
    for kind in (
        Kind("snapkv", "kvpress:SnapKVPress", "real", (WINDOW, KERNEL), per_ratio=False),
        Kind("h2o", "kvpress:ObservedAttentionPress", "real", per_ratio=False),
        Kind("tova", "kvpress:TOVAPress", "real", per_ratio=False),
        Kind(
            "expected_attention",
            "kvpress:ExpectedAttentionPress",
            "real",
            (
                Parameter("n_future_positions", "n_future_positions", int, 512),
                SINK,
                Parameter("use_covariance", "use_covariance", bool, True),
                Parameter("use_vnorm", "use_vnorm", bool, True),
                Parameter("epsilon", "epsilon", float, 0.0),
            ),
            per_ratio=False,
        ),
        Kind(
            "adakv",
            "kvpress:AdaKVPress",
            "real",
            (ALPHA, STORAGE, WINDOW, KERNEL),
            per_ratio=False,
            masks=True,
            over_snapkv=True,
        ),
        Kind("keydiff", "kvpress:KeyDiffPress", "real", per_ratio=False),
        Kind("random", "kvpress:RandomPress", "trivial", (SEED,), blind=True, per_ratio=False),
        Kind("knorm", "kvpress:KnormPress", "trivial", blind=True, per_ratio=False),
        Kind("streaming_llm", "kvpress:StreamingLLMPress", "trivial", (SINK,), blind=True),
        Kind("full", "", "anchor", blind=True, per_ratio=False),
        Kind(
            "criticalkv",
            "kvpress:CriticalKVPress",
            parameters=(EPSILON, FIRST_STAGE, WINDOW, KERNEL),
            over_snapkv=True,
        ),
        Kind(
            "critical_adakv",
            "kvpress:CriticalAdaKVPress",
            parameters=(ALPHA, EPSILON, FIRST_STAGE, WINDOW, KERNEL),
            masks=True,
            route="native",
            over_snapkv=True,
        ),
    )
}
"""The roster, the anchor, and the two wrappers that have a form of their own."""

ALIASES = {"observed_attention": "h2o"}

MASKING = frozenset({"kvgrad", "kvzip"})
"""Presses not listed here that hold the full cache, or more."""

_DOWNLOADS = "it needs weights or statistics from the network, which an audit does not reach for"
_DECODES = "it evicts while decoding; an audit compares caches after the prefill, which it leaves whole"
_WRAPS = "it wraps another press, and kvpress names no default for it"
_SHARES = "how much it evicts is set by something other than a share of the keys"

UNUSABLE = {
    "duo_attention": _DOWNLOADS,
    "expected_attention_stats": _DOWNLOADS,
    "fastkvzip": _DOWNLOADS,
    "kvzap": _DOWNLOADS,
    "lukv": _DOWNLOADS,
    "qfilter": _DOWNLOADS,
    "restorekv": _DOWNLOADS,
    "cam": _DECODES,
    "compression_ratio_decoding": _DECODES,
    "decoding": _DECODES,
    "prefill_decoding": _DECODES,
    "block": _WRAPS,
    "chunk": _WRAPS,
    "chunkkv": _WRAPS,
    "composed": _WRAPS,
    "dms": _WRAPS,
    "entropy_gated_chunkkv": _WRAPS,
    "key_rerotation": _WRAPS,
    "merging": _WRAPS,
    "per_layer_compression": _WRAPS,
    "finch": "it takes what follows a delimiter token for the question, and the audited texts have none",
    "sim_layerkv": _SHARES,
    "think": _SHARES,
    "base": "it is no method",
    "scorer": "it is no method",
}
"""Why a press of kvpress cannot be audited in any setting."""
