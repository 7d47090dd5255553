"""What a capture refuses, by name and before any layer has run."""

from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, DynamicCache, logging

from ceiling.capture import CaptureError, capture, check_model
from ceiling.problem import InputError
from tests.tiny_models import REFUSED, build, tokens


@pytest.fixture(autouse=True)
def _quiet():
    level = logging.get_verbosity()
    logging.set_verbosity_error()
    yield
    logging.set_verbosity(level)


@pytest.mark.parametrize("kind", REFUSED)
def test_models_whose_rows_would_not_be_their_attention(kind):
    model = build(kind, "eager")
    with (
        pytest.raises(InputError, match=rf"model: {kind} is refused, .*{REFUSED[kind][1]}"),
        capture(model, [3]),
    ):
        pytest.fail("the block was entered")


def test_a_name_that_holds_ssm_is_no_state_space_model():
    """SeedOssMLP was once taken for one."""
    check_model(build("seed_oss"))


def test_an_encoder_decoder_is_refused():
    config = AutoConfig.for_model(
        "t5", vocab_size=32, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2, decoder_start_token_id=0
    )
    with pytest.raises(InputError, match="encoder-decoder"):
        check_model(AutoModelForSeq2SeqLM.from_config(config).eval())


def test_what_is_no_language_model_is_refused():
    with pytest.raises(InputError, match="int is no language model"), capture(3, [1]):
        pytest.fail("the block was entered")


def test_training_mode_attention_output_and_odd_dtypes_are_refused():
    with pytest.raises(InputError, match="training mode"):
        check_model(build("llama").train())
    eager = build("llama", "eager")
    eager.config.output_attentions = True
    with pytest.raises(InputError, match="output_attentions is on"):
        check_model(eager)
    with pytest.raises(InputError, match="dtype"):
        check_model(build("llama").double())


IDS = tokens(16)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"input_ids": IDS.repeat(2, 1)}, "a batch of 2"),
        ({"input_ids": IDS, "attention_mask": torch.tensor([[0] + [1] * 15])}, "padding"),
        ({"input_ids": IDS, "attention_mask": torch.ones(1, 1, 16, 16)}, "custom mask"),
        ({"input_ids": IDS, "output_attentions": True}, "output_attentions"),
        ({"input_ids": tokens(300)}, "300 is beyond the model's 256 positions"),
        ({"input_ids": IDS[:, :9]}, "9 is outside the 9 tokens"),
        ({}, "input_ids: not given"),
    ],
)
def test_calls_that_are_no_plain_causal_text(arguments: dict[str, Any], words):
    model = build("llama")
    ran = []
    model.model.layers[0].register_forward_hook(lambda *_: ran.append(1))
    with pytest.raises(InputError, match=words), torch.inference_mode(), capture(model, [3, 9]):
        model(**arguments)
    assert not ran


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_a_mask_of_ones_is_no_padding(kind):
    model = build(kind)
    with torch.inference_mode(), capture(model, [3, 9]) as recording:
        model(input_ids=IDS, attention_mask=torch.ones_like(IDS))
    assert len(recording.layers) == 3


@pytest.mark.parametrize("kind", ["llama", "gemma2"])
def test_packed_texts_are_refused(kind):
    model = build(kind)
    packed = torch.cat([torch.arange(8), torch.arange(8)])[None]
    with (
        pytest.raises(CaptureError, match="the mask shows 2 keys, expected 10"),
        torch.inference_mode(),
        capture(model, [3, 9]),
    ):
        model(input_ids=IDS, position_ids=packed, use_cache=False)


def test_a_filled_cache_and_generation_are_refused():
    model = build("llama")
    with torch.inference_mode():
        cache = model(IDS, past_key_values=DynamicCache(config=model.config)).past_key_values
        with pytest.raises(InputError, match="cache holds tokens"), capture(model, [3]):
            model(IDS, past_key_values=cache)
        with pytest.raises(InputError, match=r"outside the 1 tokens|cache holds tokens"), capture(model, [3]):
            model.generate(IDS, max_new_tokens=3, do_sample=False)


def test_one_forward_a_capture():
    model = build("llama")
    with torch.inference_mode():
        with capture(model, [3]):
            model(IDS)
            with pytest.raises(CaptureError, match="layer 0 ran twice"):
                model(IDS)
        with pytest.raises(CaptureError, match=r"layers \[0, 1, 2\] did not run"), capture(model, [3]):
            pass


@pytest.mark.parametrize(
    ("positions", "words"),
    [
        ([], "none given"),
        ([-1, 3], "-1 is negative"),
        ([3.7, 5], "3.7 is not a whole number"),
        ([3, 3], "3 is repeated"),
        ([9, 3], "9 stands before 3"),
    ],
)
def test_positions(positions, words):
    with pytest.raises(InputError, match=f"positions: {words}"), capture(build("llama"), positions):
        pytest.fail("the block was entered")
