"""Studies made, kept and written down: which runs they need, the numbers of those, and the pages that show them."""
