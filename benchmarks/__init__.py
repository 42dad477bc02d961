"""Paired measurements: ours against the plain library call, or one length against another, in one process."""
