"""The tokenizer in a GGUF file, rebuilt from its vocabulary.

transformers would read the byte-level one of a Llama as CodeLlama's, with tokens beyond the
embedding table, and Gemma's as a Unigram model: there a token's rank, which stands in the file as a
negative score, is a logarithm of probability, and words fall into letters.  Both are BPE.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)
from transformers import PreTrainedTokenizerFast

from ceiling.problem import InputError

NORMAL, UNKNOWN, CONTROL, USER_DEFINED = 1, 2, 3, 4
"""GGUF ``tokenizer.ggml.token_type`` (GGUF specification, "tokenizer")."""

_ROLES = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}  # GGUF's names -> transformers'

_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def _split(digits: str) -> pre_tokenizers.PreTokenizer:
    """Split as Llama 3 and Qwen 2 publish it; they differ in how many digits stay together."""
    words = pre_tokenizers.Split(Regex(_WORDS % digits), "isolated")
    return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


BYTE_LEVEL: dict[str, pre_tokenizers.PreTokenizer] = {
    "gpt-2": pre_tokenizers.ByteLevel(add_prefix_space=False),
    # "smollm" splits numbers into single digits, then words as GPT-2 does.
    "smollm": pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    ),
    "llama-bpe": _split("{1,3}"),
    "qwen2": _split(""),
}
"""``tokenizer.ggml.pre`` of the byte-level tokenizers that are rebuilt -> how they split a text."""


def rebuild(settings: Mapping[str, Any], name: str) -> PreTrainedTokenizerFast:
    """Build the tokenizer that a GGUF file describes.

    Parameters
    ----------
    settings : mapping
        The file's key-value pairs.
    name : str
        Of the file, for messages.

    Returns
    -------
    PreTrainedTokenizerFast
        Token ids are those of the file; ``bos`` goes before a text where the file or its kind says so.

    Raises
    ------
    InputError
        When the tokenizer is of a kind that is not rebuilt, lacks a part, has parts that do not fit
        together, or scores that rank nothing.
    """
    try:
        return _rebuild(settings, name)
    except InputError:
        raise
    except KeyError as error:
        raise InputError(f"model: {name}: its tokenizer lacks {error}") from None
    except Exception as error:  # tokenizers raises nothing narrower
        reason = (str(error).strip() or repr(error)).splitlines()[0]
        raise InputError(f"model: {name}: its tokenizer is broken ({reason})") from error


def _rebuild(settings: Mapping[str, Any], name: str) -> PreTrainedTokenizerFast:
    kind, pre = settings.get("tokenizer.ggml.model"), settings.get("tokenizer.ggml.pre")
    if kind == "gpt2" and pre in BYTE_LEVEL:
        bpe = _byte_level(settings, pre)
    elif kind == "llama":
        bpe = _sentencepiece(settings, name)
    else:
        raise InputError(
            f"model: {name}: its tokenizer ({kind}, {pre}) is not rebuilt; rebuilt are llama and, of gpt2, "
            f"{', '.join(BYTE_LEVEL)}; give the model as a Hugging Face folder"
        )
    tokens = settings["tokenizer.ggml.tokens"]
    _add_whole_tokens(bpe, tokens, settings["tokenizer.ggml.token_type"])
    roles = {
        f"{short}_token": tokens[index]
        for long, short in _ROLES.items()
        if (index := settings.get(f"tokenizer.ggml.{long}_token_id")) is not None
    }
    starts = settings.get("tokenizer.ggml.add_bos_token", kind == "llama" or pre == "llama-bpe")
    if starts and (bos := roles.get("bos_token")) is not None:
        bpe.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A",
            pair=f"{bos} $A {bos}:1 $B:1",
            special_tokens=[(bos, settings["tokenizer.ggml.bos_token_id"])],
        )
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        model_max_length=settings[f"{settings['general.architecture']}.context_length"],
        clean_up_tokenization_spaces=False,
        chat_template=settings.get("tokenizer.chat_template"),
        **roles,
    )


def _byte_level(settings: Mapping[str, Any], pre: str) -> Tokenizer:
    vocabulary = {token: i for i, token in enumerate(settings["tokenizer.ggml.tokens"])}
    merges = [tuple(merge.split(" ")) for merge in settings["tokenizer.ggml.merges"]]
    # Llama 3 looks a word up before it merges.
    bpe = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=pre == "llama-bpe"))
    if pre == "qwen2":
        bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = BYTE_LEVEL[pre]
    bpe.decoder = decoders.ByteLevel()
    return bpe


def _sentencepiece(settings: Mapping[str, Any], name: str) -> Tokenizer:
    """SentencePiece's BPE: spaces are ``▁``, unknown characters bytes, and a text is one word."""
    tokens = settings["tokenizer.ggml.tokens"]
    ranked = zip(
        tokens, settings["tokenizer.ggml.scores"], settings["tokenizer.ggml.token_type"], strict=True
    )
    scores = {token: score for token, score, kind in ranked if kind == NORMAL}
    if len(set(scores.values())) <= len(scores) / 2:  # converters that had no scores write equal ones
        raise InputError(f"model: {name}: its tokens' scores are no ranks; give the model as a folder")
    unknown = settings.get("tokenizer.ggml.unknown_token_id")
    bpe = Tokenizer(
        models.BPE(
            vocab={token: i for i, token in enumerate(tokens)},
            merges=_merges(tokens, scores),
            unk_token=None if unknown is None else tokens[unknown],
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    spaces = normalizers.Replace(" ", "▁")
    text = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    if settings.get("tokenizer.ggml.add_space_prefix", True):
        bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces])
        bpe.decoder = decoders.Sequence([*text, decoders.Strip(" ", 1, 0)])
    else:
        bpe.normalizer = spaces
        bpe.decoder = decoders.Sequence(text)
    return bpe


def _merges(tokens: Sequence[str], scores: Mapping[str, float]) -> list[tuple[str, str]]:
    """Every pair of tokens that spells a scored one, the best first, of one token's the longest left half.

    The order of the published ``tokenizer.json`` files, which are derived from the same scores.
    """
    known = set(tokens)
    merges = [
        (-score, -cut, token[:cut], token[cut:])
        for token, score in scores.items()
        for cut in range(1, len(token))
        if token[:cut] in known and token[cut:] in known
    ]
    merges.sort()
    return [(left, right) for _, _, left, right in merges]


def _add_whole_tokens(bpe: Tokenizer, tokens: Sequence[str], types: Sequence[int]) -> None:
    """Tokens that are found in a text before anything is merged, the longest first."""

    def added(kinds: set[int], special: bool) -> list[AddedToken]:
        chosen = (token for token, kind in zip(tokens, types, strict=True) if kind in kinds)
        return [AddedToken(token, special=special, normalized=False) for token in chosen]

    bpe.add_special_tokens(added({UNKNOWN, CONTROL}, True))
    bpe.add_tokens(added({USER_DEFINED}, False))
