"""Row-streamed capture of attention from a loaded model: the room of torch."""

from ceiling.capture.architecture import Architecture as Architecture
from ceiling.capture.architecture import forward as forward
from ceiling.capture.architecture import probe as probe
from ceiling.capture.backends import BLOCKED as BLOCKED
from ceiling.capture.backends import backend as backend
from ceiling.capture.backends import functions as functions
from ceiling.capture.cost import forward_seconds as forward_seconds
from ceiling.capture.cost import layer_bytes as layer_bytes
from ceiling.capture.hooks import attention_of as attention_of
from ceiling.capture.hooks import capture as capture
from ceiling.capture.hooks import registered as registered
from ceiling.capture.positions import check_positions as check_positions
from ceiling.capture.positions import sample_positions as sample_positions
from ceiling.capture.recording import Layer as Layer
from ceiling.capture.recording import Recording as Recording
from ceiling.capture.refusals import check_call as check_call
from ceiling.capture.refusals import check_length as check_length
from ceiling.capture.refusals import check_model as check_model
from ceiling.capture.rows import CaptureError as CaptureError
from ceiling.capture.rows import softmax_rows as softmax_rows

__all__ = [
    "BLOCKED",
    "Architecture",
    "CaptureError",
    "Layer",
    "Recording",
    "attention_of",
    "backend",
    "capture",
    "check_call",
    "check_length",
    "check_model",
    "check_positions",
    "forward",
    "forward_seconds",
    "functions",
    "layer_bytes",
    "probe",
    "registered",
    "sample_positions",
    "softmax_rows",
]
