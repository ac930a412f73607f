"""Several runs in one process, whose networks are computed together."""
