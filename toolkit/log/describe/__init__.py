"""The description of a log: its numbers, and the largest caps that each kind of policy can have on it."""
