"""Where a newcomer looks first: thirty questions, each answered by the module that the page on architecture names."""

from __future__ import annotations

import ast

import pytest
from places import ROOT

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
GUESSES = (
    ("the float golden of an addition", "reference/golden/elementwise.py", "add"),
    ("the float golden of a convolution", "reference/golden/linear.py", "convolution"),
    ("the error bound of an int8 addition", "reference/golden/error_bound.py", "sum_"),
    ("TensorFlow Lite's max pool as plain integers", "reference/arithmetic/tflite/pooling.py", "max_pool2d"),
    ("TOSA's rescale as plain integers", "reference/arithmetic/tosa/rescale.py", "shifted"),
    ("the integer golden of a mean on Neutron", "reference/integer/reduction.py", "mean"),
    ("the integer golden of a max pool on Ethos-U", "reference/integer/tosa_pooling.py", "max_pool"),
    ("the integer golden of a max pool on XNNPACK", "reference/integer/xnnpack.py", "max_pool"),
    ("all that there is to softmax", "reference/operators/activation.py", "ACTIVATION"),
    ("Neutron's limits of a slice", "partitioners/neutron/support/slicing.py", "slice_range"),
    ("Neutron's lowering of upsample", "partitioners/neutron/lowering/resize.py", "resize_nearest"),
    ("Neutron's quantizer", "partitioners/neutron/quantizer.py", "NeutronQuantizer"),
    ("XNNPACK's int8 add kernel", "partitioners/xnnpack/kernels/elementwise.py", "add"),
    ("XNNPACK's gelu kernel", "partitioners/xnnpack/kernels/activation.py", "gelu"),
    ("XNNPACK's conditions for linear layers", "partitioners/xnnpack/configs/linear.py", "LinearConfig"),
    ("Ethos-U's average pool kernel", "partitioners/ethosu/kernels/pooling.py", "avg_pool2d"),
    ("Ethos-U's relu6 rewrite", "partitioners/ethosu/rewriting/activation.py", "relu6"),
    ("Ethos-U's limits of a convolution", "partitioners/ethosu/support/linear.py", "kernel_height"),
    ("an int8 softmax as devices compute it", "partitioners/common/int8/softmax.py", "softmax"),
    ("memory planning", "partitioners/exir/execution/memory_planning.py", "greedy"),
    ("how a `.pte` file is read", "partitioners/exir/pte/reader.py", "read"),
    ("which nodes leave as delegates", "partitioners/exir/delegation.py", "plan"),
    ("`assay certify`", "conformance/commands/certify.py", "certify"),
    ("`assay list`", "conformance/commands/list.py", "list"),
    ("shards", "conformance/record/shard.py", "Shard"),
    ("the certificate", "conformance/record/certificate.py", "Certificate"),
    ("waivers", "conformance/record/waivers.py", "load_waivers"),
    ("the gates", "conformance/judge/gates.py", "gate1"),
    ("how a table is read", "conformance/table/parsing.py", "parse_table"),
    ("the faults of Neutron", "faults/neutron.py", "catalogue"),
)


def symbols(source: str) -> set[str]:
    """The functions, classes and constants that a module makes itself; what it imports is not its own."""
    names = set[str]()
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
    return names


@pytest.mark.parametrize(("question", "module", "symbol"), GUESSES)
def test_a_first_guess_finds_what_is_asked(question: str, module: str, symbol: str) -> None:
    assert symbol in symbols((ROOT / module).read_text(encoding="utf-8"))
    assert f"| {question} | `{module}`: `{symbol}` |\n" in PAGE


def test_there_are_thirty_questions_and_no_other_on_the_page() -> None:
    assert len({question for question, _, _ in GUESSES}) == 30
    assert PAGE.count("`: `") == 30


def test_what_a_module_imports_is_not_its_own() -> None:
    assert symbols("from x import a\nimport b\nc, d = 1, 2\ne: int = 3\ndef f(): g = 1\nclass H: i = 1\n") == {*"cdefH"}
