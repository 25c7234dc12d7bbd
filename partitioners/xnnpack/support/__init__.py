"""The limits of XNNPACK, one function each; its docstring is the sentence in reports."""
