"""ReCo (arXiv 2608.04771): one reward per step drives how much is remembered, how hard reflection is suppressed, and when to stop."""
