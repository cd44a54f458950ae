"""The paper's tables and figures: one readable file each, with its result in docs/results."""
