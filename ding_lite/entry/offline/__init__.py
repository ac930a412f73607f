"""Learning from a data set, and recording one."""
