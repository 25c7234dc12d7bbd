"""The CPU provider of ONNX Runtime as an engine, and Qualcomm's HTP emulator, through a plug-in provider."""

from __future__ import annotations

from onnx import ModelProto
from torch.export import ExportedProgram

from npu_assay.conformance.adapters.engine import Engine, Form, beside, onnx_bytes
from npu_assay.conformance.interchange.onnx_form import onnx_model
from npu_assay.conformance.interchange.unsigned_form import unsigned
from npu_assay.reference.onnx_forms.site import FormError


def signed_bytes(program: ExportedProgram) -> bytes:
    """A program in the ONNX form. Raises FormError, by the table's name for it where sizes are open."""
    return bytes(_model(program).SerializeToString(deterministic=True))


def unsigned_bytes(program: ExportedProgram) -> bytes:
    """A program in the ONNX form on unsigned codes. Raises FormError likewise."""
    return bytes(unsigned(_model(program)).SerializeToString(deterministic=True))


def _model(program: ExportedProgram) -> ModelProto:
    try:
        return onnx_model(program, "case")
    except FormError as error:
        raise FormError({"open_sizes": "static_shape"}.get(error.code, error.code), str(error)) from None


def _qnn_htp(name: str, form: Form) -> Engine:
    return Engine(
        name=f"onnxruntime:{name}",
        table="qnn_htp@2.51",
        backend_id="OnnxRuntimeQnnHtp",
        program=beside(__file__, "qnn_htp.py:run"),
        refused="the provider must place every node of the model on HTP",
        distributions=("onnxruntime", "onnxruntime-qnn"),
        form=form,
        needs=(("onnxruntime_qnn", ""),),
    )


ENGINES = {
    "cpu": Engine(
        name="onnxruntime:cpu",
        table="onnxruntime_cpu@1.31",
        backend_id="OnnxRuntimeCpu",
        program=beside(__file__, "cpu.py:run"),
        refused="ONNX Runtime must make a session of the model",
        distributions=("onnxruntime",),
        form=onnx_bytes,
        needs=(("onnxruntime", "onnxruntime"),),
    ),
    "qnn_htp": _qnn_htp("qnn-htp", unsigned_bytes),
    "qnn_htp_signed": _qnn_htp("qnn-htp-signed", signed_bytes),
}
