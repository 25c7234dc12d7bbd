"""Parts of tensors, joined tensors, borders, and selection by index or by condition."""

from __future__ import annotations

from collections.abc import Mapping

from npu_assay.partitioners.common.rules import argument_is
from npu_assay.partitioners.ethosu import no_ops
from npu_assay.partitioners.ethosu.lowering import indexing, logic
from npu_assay.partitioners.ethosu.lowering import movement as lowering
from npu_assay.partitioners.ethosu.operators.row import Annotation, Kept, Row, named, rows
from npu_assay.partitioners.ethosu.rewriting import selection
from npu_assay.partitioners.ethosu.support import indexing as selected
from npu_assay.partitioners.ethosu.support import movement as limits
from npu_assay.partitioners.ethosu.support.common import along_dims, code_dtype
from npu_assay.partitioners.ethosu.support.rescale import moved
from npu_assay.partitioners.exir.ops import GETITEM

SHARED = Annotation.SHARED
_JOINED = (code_dtype(*limits.ANY_INTEGER),)
ROWS: Mapping[str, Row] = {
    "aten.slice_copy.Tensor": Row(
        rules=(limits.range_arguments, limits.positive_step),
        scalings=moved,
        lower=lowering.slice_,
        annotation=SHARED,
        others=named("slice.Tensor"),
        moves=True,
    ),
    "aten.select_copy.int": Row(
        rules=(), scalings=moved, lower=lowering.select, annotation=SHARED, others=named("select.int"), moves=True
    ),
    "aten.split_copy.Tensor": Row(
        rules=(), scalings=moved, lower=lowering.same, annotation=SHARED, others=named("split.Tensor"), splits=True
    ),
    "aten.split_with_sizes_copy.default": Row(rules=(), scalings=moved, lower=lowering.same, splits=True),
    **rows("split_with_sizes chunk unbind.int", Row(annotation=SHARED)),
    GETITEM: Row(
        rules=(),
        scalings=moved,
        lower=lowering.getitem,
        annotation=SHARED,
        rewrite=selection.selected,
        keeps_sign=True,
    ),
    "aten.unfold_copy.default": Row(
        rules=(limits.window_within, limits.few_windows),
        scalings=moved,
        lower=lowering.unfold,
        annotation=SHARED,
        moves=True,
    ),
    "aten.flip.default": Row(
        first=(along_dims,),
        rules=(limits.reversed_dim,),
        scalings=moved,
        lower=lowering.flip,
        annotation=SHARED,
        moves=True,
        vanishes=no_ops.reverses_nothing,
    ),
    "aten.cat.default": Row(
        rules=_JOINED,
        scalings=moved,
        lower=lowering.cat,
        annotation=SHARED,
        others=named("concat concatenate"),
        reads_moved=True,
        keeps_sign=True,
    ),
    "aten.constant_pad_nd.default": Row(rules=_JOINED, scalings=moved, lower=lowering.constant_pad, annotation=SHARED),
    "aten.pad.default": Row(
        rules=(limits.bordered,), scalings=moved, lower=lowering.pad, annotation=SHARED, kept=Kept.QUANTISED
    ),
    "aten.glu.default": Row(annotation=Annotation.FREE, rewrite=selection.glu),
    "aten.select_scatter.default": Row(rewrite=selection.select_scatter),
    "aten.slice_scatter.default": Row(rewrite=selection.slice_scatter),
    # By index.
    "aten.embedding.default": Row(
        rules=(selected.index_dtype(1),),
        on_u55=False,
        scalings=moved,
        lower=indexing.embedding,
        annotation=Annotation.FREE,
        rewrite=selection.embedding,
    ),
    "aten.gather.default": Row(
        rules=(selected.index_dtype(2), selected.gathered_dim, selected.gathered_shape),
        on_u55=False,
        scalings=moved,
        lower=indexing.gather,
        annotation=SHARED,
        rewrite=selection.gather,
    ),
    "aten.index_select.default": Row(
        rules=(selected.no_scalar, selected.index_dtype(2), selected.list_of_indices),
        on_u55=False,
        scalings=moved,
        lower=indexing.index_select,
        annotation=SHARED,
        rewrite=selection.index_select,
    ),
    "aten.index.Tensor": Row(
        rules=(selected.explicit_indices, selected.few_elements),
        on_u55=False,
        scalings=moved,
        lower=indexing.index,
        annotation=SHARED,
        rewrite=selection.index,
    ),
    "aten.index_put.default": Row(
        rules=(selected.explicit_indices, selected.mask_alone, argument_is("accumulate", False, False, 3)),
        on_u55=False,
        scalings=moved,
        lower=indexing.index_put,
        annotation=SHARED,
        others=named("index_put_ index_copy index_copy_"),
    ),
    # By condition.
    "aten.where.self": Row(
        rules=(selected.distinct_inputs, selected.condition_dtype, selected.chosen_dtype),
        on_u55=False,
        scalings=moved,
        lower=logic.where,
        annotation=SHARED,
        others=named("where"),
    ),
    **rows("where.ScalarOther where.ScalarSelf", Row(rewrite=selection.where_number)),
    "aten.masked_fill.Scalar": Row(
        rules=(), on_u55=False, scalings=moved, lower=logic.masked_fill, rewrite=selection.masked_fill
    ),
    "aten.masked_fill_.Scalar": Row(rewrite=selection.masked_fill_),
    "aten.tril.default": Row(rewrite=selection.lower_triangle),
}
