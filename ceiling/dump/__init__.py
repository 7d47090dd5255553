"""Captured attention on disk: one folder, one manifest, one safetensors file a document (schema 1)."""

from ceiling.dump.manifest import MANIFEST as MANIFEST
from ceiling.dump.manifest import SCHEMA as SCHEMA
from ceiling.dump.manifest import Identity as Identity
from ceiling.dump.manifest import tokens_sha256 as tokens_sha256
from ceiling.dump.reader import Document as Document
from ceiling.dump.reader import Dump as Dump
from ceiling.dump.reader import open_dump as open_dump
from ceiling.dump.writer import DumpWriter as DumpWriter
from ceiling.dump.writer import same_dump as same_dump

__all__ = [
    "MANIFEST",
    "SCHEMA",
    "Document",
    "Dump",
    "DumpWriter",
    "Identity",
    "open_dump",
    "same_dump",
    "tokens_sha256",
]
