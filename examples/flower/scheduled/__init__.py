"""A Flower app in which every device decides for itself whether it takes part."""
