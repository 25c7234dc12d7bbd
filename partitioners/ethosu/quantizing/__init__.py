"""How tensors are quantised for Ethos-U: specifications, and which operators get them. Needs torchao."""
