"""A GGUF file of a Llama-like model turned into a standard Hugging Face folder.

transformers dequantises the weights.  It would read the tokenizer of such a file as CodeLlama's,
with extra tokens beyond the embedding table, so the byte-level BPE is rebuilt here from the file's
own vocabulary and merges.
"""

import contextlib
import io
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFReader
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerFast

from ceiling.models.loading import quiet

CONTROL_TOKEN = 3
"""GGUF ``tokenizer.ggml.token_type`` of a control token (GGUF specification, "tokenizer")."""

_ROLES = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}  # GGUF's names -> transformers'


def convert(gguf: Path, folder: Path) -> None:
    """Write ``config.json``, ``model.safetensors`` (float32) and the tokenizer of `gguf` into `folder`.

    Raises
    ------
    OSError
        When the tokenizer is of a kind this converter does not rebuild.
    """
    tokenizer = _tokenizer(gguf)
    # Its progress bar is a bare tqdm on stderr, out of reach of transformers' own settings.
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        model = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def _tokenizer(gguf: Path) -> PreTrainedTokenizerFast:
    fields = GGUFReader(gguf).fields

    def read(name: str, default: Any = None) -> Any:
        return fields[name].contents() if name in fields else default

    kind = (read("tokenizer.ggml.model"), read("tokenizer.ggml.pre"))
    if kind != ("gpt2", "smollm"):
        raise OSError(f"{gguf.name}: tokenizer {kind} is not one that can be rebuilt")
    tokens = read("tokenizer.ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in read("tokenizer.ggml.merges")]
    bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    # "smollm" splits numbers into single digits, then words as GPT-2 does.
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    bpe.decoder = decoders.ByteLevel()
    types = read("tokenizer.ggml.token_type")
    control = [token for token, kind in zip(tokens, types, strict=True) if kind == CONTROL_TOKEN]
    bpe.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in control])
    roles = {
        f"{short}_token": tokens[index]
        for long, short in _ROLES.items()
        if (index := read(f"tokenizer.ggml.{long}_token_id")) is not None
    }
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        model_max_length=read("llama.context_length"),
        clean_up_tokenization_spaces=False,
        chat_template=read("tokenizer.chat_template"),
        **roles,
    )
