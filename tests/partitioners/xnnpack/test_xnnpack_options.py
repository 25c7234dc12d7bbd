"""Options of the XNNPACK partitioner: bfloat16; and what it says, while it works and afterwards."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from xnnpack_graphs import graph, partitioned, program, real, step

from npu_assay.conformance.programs.graph import Graph
from npu_assay.partitioners.exir import to_backend
from npu_assay.partitioners.xnnpack import XnnpackBackend, XnnpackPartitioner
from npu_assay.partitioners.xnnpack.configs import ReLUConfig

CHAIN = graph([real("x", 2, 3)], [step("first", "abs", "x"), step("second", "relu", "first")])


def taken(model: Graph, **options: Any) -> dict[str, bool]:
    """Which steps are delegated."""
    return {name: found is not None for name, found in partitioned(model, **options).steps.items()}


def test_bfloat16_products() -> None:
    values = [
        real(name, *shape, dtype="bfloat16", constant=name != "x") for name, shape in (("x", (2, 4)), ("w", (3, 4)))
    ]
    product = graph(values, [step("product", "linear", "x", "w")])
    other = graph(values[:1], [step("other", "abs", "x")])
    assert taken(product) == {"product": False} and taken(product, enable_bf16=True) == {"product": True}
    assert taken(other) == taken(other, enable_bf16=True) == {"other": False}


def test_what_is_accepted_in_bfloat16_compiles() -> None:
    """Matrix products whose bias is a constant; neither convolutions nor a bias that the model computes."""
    sizes = {"x": (1, 4, 5, 5), "w": (4, 4, 3, 3), "b": (4,)}
    image = [real(name, *shape, dtype="bfloat16", constant=name != "x") for name, shape in sizes.items()]
    (reason,) = partitioned(
        graph(image, [step("z", "convolution", "x", "w", "b", [1, 1], [0, 0], [1, 1], False, [0, 0], 1)]),
        enable_bf16=True,
    ).rejections
    assert (reason.code, reason.found) == ("dtype", "x is bfloat16")
    for constant in (True, False):
        shapes = {"x": (2, 4), "w": (3, 4), "b": (3,)}
        values = [
            real(name, *shape, dtype="bfloat16", constant=name == "w" or (name == "b" and constant))
            for name, shape in shapes.items()
        ]
        model = graph(values, [step("product", "linear", "x", "w", "b")])
        options: dict[str, Any] = {"enable_bf16": True, "force_non_static_weights_for_f32_linear": not constant}
        assert taken(model, **options) == {"product": constant}
        to_backend(program(model), XnnpackPartitioner(**options), details={"XnnpackBackend": XnnpackBackend})


def test_verbose_logs_delegates_and_reasons(caplog: pytest.LogCaptureFixture) -> None:
    """A user sees it with logging.basicConfig(); without `verbose` nothing is said."""
    partitioned(CHAIN, configs=[ReLUConfig])
    assert [record for record in caplog.records if record.name.startswith("npu_assay")] == []
    partitioned(CHAIN, configs=[ReLUConfig], verbose=True)
    said = [
        record.getMessage() for record in caplog.records if record.name == "npu_assay.partitioners.xnnpack.partitioner"
    ]
    assert said == [
        "tag0: aten_relu_default",
        "aten_abs_default (aten.abs.default) [configs]: the operator's config must be one of configs; "
        "found AbsConfig is not selected",
    ]


def test_verbose_is_seen_once_whether_logging_is_set_up_or_not(capsys: pytest.CaptureFixture[str]) -> None:
    logger, root = logging.getLogger("npu_assay.partitioners.xnnpack.partitioner"), logging.getLogger()
    handlers, root.handlers = root.handlers, []
    try:
        partitioned(CHAIN, verbose=True)
        assert capsys.readouterr().err == "tag0: aten_abs_default aten_relu_default\n"
        assert not logger.handlers
        root.addHandler(logging.StreamHandler())
        partitioned(CHAIN, verbose=True)
        assert capsys.readouterr().err == "tag0: aten_abs_default aten_relu_default\n"
    finally:
        root.handlers = handlers


@pytest.mark.parametrize(
    ("shape", "dims", "codes"),
    [
        ((2, 3, 4), [-1, -2], ["rank"]),
        ((2, 3, 4), [1, 2], ["rank"]),
        ((1, 2, 3, 4, 5), [-2, -1], ["rank"]),
        ((2, 3, 4), [0, 1], ["rank", "dims"]),
        ((2, 3, 4, 5), [-1, 2], []),
        ((2, 3, 4, 5), [1, 2], ["dims"]),
        ((2,), [-1], ["rank", "dims"]),
    ],
)
def test_reasons_of_a_mean_are_those_that_do_not_hold(
    shape: tuple[int, ...], dims: list[int], codes: list[str]
) -> None:
    model = graph([real("x", *shape)], [step("y", "mean.dim", "x", dims, True)])
    assert [reason.code for reason in partitioned(model).rejections] == codes
