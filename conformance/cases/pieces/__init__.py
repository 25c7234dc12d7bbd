"""What cases are made from: spellings, values, sizes, quantization, contexts, options."""
