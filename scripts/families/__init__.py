"""Scripts that look at whole kernel families: what they render, which genes change code, what they spill."""
