"""Published numbers with ours beside them: `python -m figures.published`."""
