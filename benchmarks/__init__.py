"""Side-by-side measurements. Each prints ratios from one run; none asserts a time."""
