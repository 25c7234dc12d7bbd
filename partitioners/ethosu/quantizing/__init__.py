"""How tensors are quantized for Ethos-U: specifications, and which operators get them. Needs torchao."""
