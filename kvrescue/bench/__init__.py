"""Measuring: grids of methods over problems, graded, stored so that a kill loses next to nothing, and told as tables and pages."""
