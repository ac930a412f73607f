"""The process group: joining it, collectives, shared memory, and detecting lost ranks."""
