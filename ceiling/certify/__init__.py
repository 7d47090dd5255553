"""Proved intervals for the best kept set, and exact answers to the zero-error question."""

from ceiling.certify.certificate import ENGINE as ENGINE
from ceiling.certify.certificate import NODES as NODES
from ceiling.certify.certificate import Certificate as Certificate
from ceiling.certify.certificate import certify as certify
from ceiling.certify.exact import Disagreement as Disagreement
from ceiling.certify.exact import ZeroAnswer as ZeroAnswer
from ceiling.certify.exact import zero_error as zero_error
from ceiling.certify.improve import improve as improve

__all__ = ["ENGINE", "NODES", "Certificate", "Disagreement", "ZeroAnswer", "certify", "improve", "zero_error"]
