"""The commands of the console command `ding_lite`, one module each."""
