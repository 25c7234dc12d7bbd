"""Whether a user can reach a case: from an nn.Module, with the vendor's own quantizer and documented steps.

The cases of a table begin with an edge program that perhaps no user's model becomes. So `assay reach` starts from
the module of the same case in real numbers, exports it, quantizes and lowers it, and runs what comes out:

    flow       the steps of a vendor: those of our export API, or what `Backend.flow` names
    walk       one case through the steps; where it ended, and what is wrong with its numbers
    asking     many cases, in child processes that may die
    told       the outcomes as a file and as text
"""
