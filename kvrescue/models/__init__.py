"""Models: loading, checks, and what this machine can run."""
