"""Export a trained policy for programs without ding_lite.

The file contains a module that maps observations to actions, without exploration; no environment is needed.
"""

from __future__ import annotations

import argparse

from ding_lite.cli.options import add_checkpoint

USAGE = "PATH -o FILE"
EXAMPLES = """
ding_lite export EXPERIMENT -o policy.pt2
ding_lite export EXPERIMENT/ckpt/ckpt_last.pth.tar -o policy.onnx
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_checkpoint(parser)
    parser.add_argument(
        "-o", "--output", metavar="FILE", required=True, help="ends with .pt2 (torch.export) or .onnx (extra onnx)"
    )


def run(args: argparse.Namespace) -> None:
    """Write the file.

    Raises:
        UserError: a mistake in the arguments or in the run's directory, or the policy cannot be exported.
    """
    from ding_lite.entry.agent import load  # noqa: PLC0415  (it loads torch)

    load(args.path).export(args.output)
    print(f"wrote {args.output}")
