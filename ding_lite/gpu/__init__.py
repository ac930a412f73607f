"""A room: other ways to compute the same gradient. CUDA graphs, torch.compile and torch's DistributedDataParallel.

It uses the kernel, in which `torch_utils/gradient.py` chooses the way. An eager run loads none of it.
"""
