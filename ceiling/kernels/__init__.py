"""Compiled inner loops: arrays and scalars in and out, serial, no fast-math."""
