"""The loop of a run and its parts. `serial_entry.py` is where a reader begins.

What every run needs is here, and nothing that only some do: other loops stand in the rooms of what they are for.
"""
