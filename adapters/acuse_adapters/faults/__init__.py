"""The fault matrix: every boundary of an operation's life struck by every fault that can bite there, on real processes.

`table` says what is struck and what must come of it; everything else carries that out.
"""
