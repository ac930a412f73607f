"""A room: environments with goals, and experience that is learned from as if another goal had been wanted.

It uses the kernel. A run without the replay buffer `her` loads none of it.
"""
