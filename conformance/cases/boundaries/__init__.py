"""Cases that are generated from predicates: programs on both sides of each limit, near to a row's plain one."""

from npu_assay.conformance.cases.boundaries.drafts import bounded as bounded
from npu_assay.conformance.cases.boundaries.drafts import turned as turned
from npu_assay.conformance.cases.boundaries.search import Limit as Limit
