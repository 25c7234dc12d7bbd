"""Parts of tensors, joined tensors, borders, and selection by index or by condition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from npu_assay.partitioners.common.rules import argument_is
from npu_assay.partitioners.ethosu import no_ops
from npu_assay.partitioners.ethosu.lowering import indexing, logic
from npu_assay.partitioners.ethosu.lowering import layout as lowering
from npu_assay.partitioners.ethosu.operators.row import Annotation, Kept, Row, moving, picking, rows
from npu_assay.partitioners.ethosu.rewriting import selection
from npu_assay.partitioners.ethosu.support import indexing as selected
from npu_assay.partitioners.ethosu.support import layout as limits
from npu_assay.partitioners.ethosu.support.common import along_dims
from npu_assay.partitioners.exir.ops import GETITEM

SHARED, FREE = Annotation.SHARED, Annotation.FREE
ROWS: Mapping[str, Row] = {
    "aten.slice_copy.Tensor": moving(
        lowering.slice_, limits.range_arguments, limits.positive_step, others="slice.Tensor"
    ),
    "aten.select_copy.int": moving(lowering.select, others="select.int"),
    "aten.split_copy.Tensor": replace(picking(lowering.same, others="split.Tensor"), splits=True),
    "aten.split_with_sizes_copy.default": replace(picking(lowering.same, annotation=None), splits=True),
    **rows("split_with_sizes chunk unbind.int", Row(annotation=SHARED)),
    GETITEM: replace(picking(lowering.getitem, rewrite=selection.selected), keeps_sign=True),
    "aten.unfold_copy.default": moving(lowering.unfold, limits.window_within, limits.few_windows),
    "aten.flip.default": replace(
        moving(lowering.flip, limits.reversed_dim, vanishes=no_ops.reverses_nothing), first=(along_dims,)
    ),
    "aten.cat.default": replace(
        picking(lowering.cat, limits.any_integer, others="concat concatenate"), reads_moved=True, keeps_sign=True
    ),
    "aten.constant_pad_nd.default": picking(lowering.constant_pad, limits.any_integer),
    "aten.pad.default": picking(lowering.pad, limits.bordered, kept=Kept.QUANTIZED),
    "aten.glu.default": Row(annotation=FREE, rewrite=selection.glu),
    "aten.select_scatter.default": Row(rewrite=selection.select_scatter),
    "aten.slice_scatter.default": Row(rewrite=selection.slice_scatter),
    # By index.
    "aten.embedding.default": picking(
        indexing.embedding, selected.index_dtype(1), annotation=FREE, rewrite=selection.embedding, on_u55=False
    ),
    "aten.gather.default": picking(
        indexing.gather,
        selected.index_dtype(2),
        selected.gathered_dim,
        selected.gathered_shape,
        rewrite=selection.gather,
        on_u55=False,
    ),
    "aten.index_select.default": picking(
        indexing.index_select,
        selected.no_scalar,
        selected.index_dtype(2),
        selected.list_of_indices,
        rewrite=selection.index_select,
        on_u55=False,
    ),
    "aten.index.Tensor": picking(
        indexing.index, selected.explicit_indices, selected.few_elements, rewrite=selection.index, on_u55=False
    ),
    "aten.index_put.default": picking(
        indexing.index_put,
        selected.explicit_indices,
        selected.mask_alone,
        selected.written_dtype,
        argument_is("accumulate", False, False, 3),
        others="index_put_ index_copy index_copy_",
        on_u55=False,
    ),
    # By condition.
    "aten.where.self": picking(
        logic.where,
        selected.distinct_inputs,
        selected.condition_dtype,
        selected.chosen_dtype,
        others="where",
        on_u55=False,
    ),
    **rows("where.ScalarOther where.ScalarSelf", Row(rewrite=selection.where_number)),
    "aten.masked_fill.Scalar": picking(logic.masked_fill, annotation=None, rewrite=selection.masked_fill, on_u55=False),
    "aten.masked_fill_.Scalar": Row(rewrite=selection.masked_fill_),
    "aten.tril.default": Row(rewrite=selection.lower_triangle),
}
