"""Measures how a backend rounds, where nobody publishes its arithmetic: `assay characterize`.

    probes     programs with other scales, terms, sizes and numbers, made from a row's plain one
    exact      what they give in real numbers, in steps of their result
    plan       which of them are asked of an operator, and where results begin to differ
    asking     the processes that they run in, those of cases
    sheets     how results come from there
    samples    counts of results: the nearest code or not, on which side, ties
    report     the findings as text, Markdown and JSON

What is measured is counted. What is inferred, the rule that explains all counts, stands apart from it.
"""
