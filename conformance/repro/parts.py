"""What the scripts are put together from. Braces are those of the script: fields are `$NAME`."""

from __future__ import annotations

HEAD = '''"""$TITLE

$STORY
Exit status: 1 when the fault shows, 0 when it does not.
"""

import sys

import torch
import torch.ao.quantization.fx._decomposed  # the operators quantize and dequantize
$IMPORTS


$MODEL


model = Model()
inputs = (
$INPUTS)
subject = $SUBJECT


def count(program):
    """How often the operator in question is left to the CPU."""
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    return sum(str(getattr(node.target, "_op", node.target)) in subject for node in nodes)


def fault(text):
    print(f"the fault shows: {text}")
    sys.exit(1)

$RUN

'''

XNNPACK_IMPORTS = """from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner
from executorch.exir import EdgeCompileConfig, to_edge
from executorch.runtime import Runtime"""

XNNPACK_CONFIGS = """from executorch.backends.xnnpack.partition import config as configs
from executorch.backends.xnnpack.partition.config.generic_node_configs import EluConfig
from executorch.backends.xnnpack.partition.config.xnnpack_config import ConfigPrecisionType"""

ARM_IMPORTS = """import tosa_reference_model
from executorch.backends.arm.tosa.compile_spec import TosaCompileSpec
from executorch.backends.arm.tosa.partitioner import TOSAPartitioner
from executorch.exir import EdgeCompileConfig, to_edge"""

RUN_DELEGATE = '''
class Run(torch.fx.Interpreter):
    """Runs a lowered program: delegates on $DEVICE, what is left in torch."""

    def call_function(self, target, args, kwargs):
        if str(target) != "executorch_call_delegate":
            return super().call_function(target, args, kwargs)
        return $CALL


def run(program):
    outputs = Run(program.module()).run(*inputs)
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
'''

XNNPACK_DEVICE = "ExecuTorch's runtime"
# ExecuTorch's method does not keep the file's bytes: without a name for them it crashes now and then.
XNNPACK_CALL = (
    """Runtime.get().load_program(buffer := args[0].buffer()).load_method("forward").execute(list(args[1:]))"""
)
ARM_DEVICE = "the TOSA reference model"
ARM_CALL = """[
            torch.tensor(y)
            for y in tosa_reference_model.run(args[0].processed_bytes, [x.contiguous().numpy() for x in args[1:]])[0]
        ]"""

EXPORT = """exported = torch.export.export(model, inputs$DYNAMIC)
"""
MARK = """for node in exported.graph.nodes:  # as Arm's quantizer marks what it has quantized
    if node.op == "call_function"$MARKED:
        node.meta["custom"] = {"$MARK": {"quantized": True}}
"""
LOWER = """edge = to_edge(exported, compile_config=EdgeCompileConfig(_check_ir_validity=False$PRESERVE))
before = count(edge.exported_program())
lowered = edge.to_backend($PARTITIONER)
left = count(lowered.exported_program())
print(f"{before - left} of {before} {' or '.join(subject)} delegated")
"""
TABLE_REJECTS = """if left < before:
    fault("delegated, but $RULE")
"""
TABLE_ACCEPTS = """if left > 0:
    fault("left to the CPU, but the table accepts it")
"""
BREAKS = """try:
$LOWER    run(lowered.exported_program())
except Exception as error:
    cause = error.__cause__ or error
    fault(f"{type(cause).__name__}: {str(cause).strip().splitlines()[0]}")
"""
DIES = """process = os.fork()
if not process:
$LOWER    run(lowered.exported_program())
    os._exit(0)
status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
if status:
    fault(f"the process ended with {status}")
"""
WRONG = """found = run(lowered.exported_program())
expected = $EXPECTED
limits = $LIMITS  # by which an output may differ
for number, (x, y, limit) in enumerate(zip(found, expected, limits, strict=True)):
    if x.shape != y.shape or x.dtype != y.dtype:
        fault(f"output {number} is {x.dtype} {list(x.shape)}, expected {y.dtype} {list(y.shape)}")
    distance = (x.double() - y.double()).abs()
    if not bool((distance <= limit).all()):
        at = distance.nan_to_num(torch.inf).argmax()
        count_wrong = int((~(distance <= limit)).sum())
        fault(
            f"output {number} is {x.flatten()[at].item()}, expected {y.flatten()[at].item()} +- {limit:g}, "
            f"at flat index {at}; {count_wrong} of {x.numel()} elements"
        )
"""
LAST = """print("the fault does not show")
"""
