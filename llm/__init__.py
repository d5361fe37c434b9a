"""The looped language model (arXiv:2604.21106): not built yet."""
