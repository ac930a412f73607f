"""A room: learning from data sets. Their files, the loop, the policies, and who records the data.

It uses the kernel. A run that plays while it learns loads none of it. `sqil.py` mixes an expert's data into replay.
"""
