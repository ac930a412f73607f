"""A room: actors, processes of Ray that collect with copies of the policy while the learner learns.

It uses the kernel. A run with `policy.collect.actors=0` loads none of it.
"""
