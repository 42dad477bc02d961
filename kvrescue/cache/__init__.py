"""What a model remembers: the evicting cache, the full-context prefix cache, and the attention both use."""
