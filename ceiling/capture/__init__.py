"""Row-streamed capture of attention from a loaded model: the room of torch."""

from ceiling.capture.architecture import Architecture as Architecture
from ceiling.capture.architecture import forward as forward
from ceiling.capture.architecture import probe as probe
from ceiling.capture.backends import backend as backend
from ceiling.capture.cost import forward_seconds as forward_seconds
from ceiling.capture.cost import layer_bytes as layer_bytes
from ceiling.capture.hooks import attention_of as attention_of
from ceiling.capture.hooks import capture as capture
from ceiling.capture.positions import sample_positions as sample_positions
from ceiling.capture.recording import CaptureError as CaptureError
from ceiling.capture.recording import Layer as Layer
from ceiling.capture.recording import Recording as Recording
from ceiling.capture.refusals import check_length as check_length
from ceiling.capture.refusals import check_model as check_model

__all__ = [
    "Architecture",
    "CaptureError",
    "Layer",
    "Recording",
    "attention_of",
    "backend",
    "capture",
    "check_length",
    "check_model",
    "forward",
    "forward_seconds",
    "layer_bytes",
    "probe",
    "sample_positions",
]
