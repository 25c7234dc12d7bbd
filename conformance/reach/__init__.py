"""Whether a user meets a case: from an nn.Module, by the vendor's own quantizer, in the documented order.

The cases of a table begin with an edge program, and no user's model may become that one. So `assay reach` starts from
the module of the same case in real numbers, exports it, quantizes and lowers it, and runs what comes out:

    flow       the steps of a vendor: those of our export API, or what `Backend.flow` names
    walk       one case through the steps; where it ended, and what is wrong with its numbers
    asking     many cases, each where nothing that dies takes the others along
    told       the answers as a file and as text
"""
