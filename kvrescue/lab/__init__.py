"""The lab: a small world of stories, and tiny models trained on it from nothing, that show what the papers describe."""
