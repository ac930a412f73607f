"""The command line. `main.py` finds the command, which is a class of one of these modules, see `parsers.Command`.

A user's mistake raises `UserError`, whose message is printed. torch and other large packages are imported by `run`
alone, so that help and mistakes in options are shown immediately.
"""
