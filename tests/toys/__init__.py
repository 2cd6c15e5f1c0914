"""One toy of each axis, each in a file of its own, as somebody would add a real one."""
