"""The page. Nothing here imports torch: the engine comes in as a Backend."""
