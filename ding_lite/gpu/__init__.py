"""A room: other ways to compute the same gradient: CUDA graphs, torch.compile, torch's DistributedDataParallel.

It uses the kernel. A run that asks for none of them, by `policy.cuda_graph`, `policy.compile`, `policy.data_parallel`
and `policy.bp_update_sync`, loads none of it.
"""
