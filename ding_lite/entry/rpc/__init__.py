"""One agent and its observers, over torch.distributed.rpc."""
