"""A room: imitation by rewards that compare what the policy does with an expert's data set.

It uses the kernel, the base class of `reward_model`, and the data sets of `offline`.
"""
