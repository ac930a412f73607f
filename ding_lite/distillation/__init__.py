"""A room: a student learns to act as a trained policy does, which may see more than the student.

It uses the kernel, and loads the teacher as `trained` does. Runs of other policies load none of it.
"""
