"""One script a figure: load → compute → plot → main. Figures read results and never train."""
