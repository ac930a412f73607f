"""The process group: joining it, collectives, shared memory, and noticing ranks that are lost."""
