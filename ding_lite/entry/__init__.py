"""Pipelines and the command line."""

from ding_lite.entry.eval_entry import evaluate_checkpoint
from ding_lite.entry.serial_entry import serial_pipeline

__all__ = ["evaluate_checkpoint", "serial_pipeline"]
