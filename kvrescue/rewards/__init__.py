"""Process rewards: who judges a step."""
