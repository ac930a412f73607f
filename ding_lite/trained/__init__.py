"""A room: what is done with a trained policy. It is loaded, acts, plays episodes, is drawn and exported.

It uses the kernel and reads the directories of runs. A run that trains loads none of it, unless `env.replay_path` asks
for videos. No module here imports torch but those that run a policy.
"""
