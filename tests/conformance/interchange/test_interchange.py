"""`assay export` and `assay judge`: what is written, what is judged, and that every edit and every wrong code shows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from calling import assay
from interchange_runs import Array, listed, read, run_all, write
from onnx.backend.test.loader import load_model_tests
from onnx.reference import ReferenceEvaluator

from npu_assay.conformance.common.shapes import check_shape
from npu_assay.conformance.interchange import judging
from npu_assay.conformance.interchange.manifest import SEAL, Manifest, ManifestError, _seal, read_manifest, sha256
from npu_assay.conformance.interchange.onnx_form import onnx_model
from npu_assay.conformance.interchange.onnx_rules import OWN
from npu_assay.conformance.interchange.tensors import TensorFileError, tensor_bytes, tensor_from
from npu_assay.conformance.programs.build import build
from npu_assay.conformance.programs.graph import Graph, Ref, Step, Value
from npu_assay.conformance.run.selection import all_cases, select
from npu_assay.conformance.table import load_table
from npu_assay.reference.onnx_forms.site import FormError, onnx_form

BACKEND = "npu_assay.partitioners.neutron:backend"
SOME = "relu.default/operator/accept/ba or relu.default/operator/context/b or abs.default/operator/accept/ba"


def by_reference(model: Path, inputs: Sequence[Array]) -> Sequence[Array]:
    """The outputs by onnx.reference."""
    loaded = onnx.load(model)
    names = [value.name for value in loaded.graph.input]
    return list(ReferenceEvaluator(loaded).run(None, dict(zip(names, inputs, strict=True))))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interchange") / "cases"
    assert assay("export", BACKEND, folder, "-k", SOME)[0] == 0
    return folder


@pytest.fixture(scope="module")
def computed(exported: Path) -> Path:
    """What onnx.reference computes."""
    outputs = exported.parent / "outputs"
    run_all(exported, outputs, by_reference)
    return outputs


def goldens(folder: Path, outputs: Path) -> Path:
    """The expected outputs of an exported folder as somebody's results, in `outputs`."""
    for case in listed(folder):
        for name in case["outputs"]:
            (outputs / case["folder"] / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / case["folder"] / name, outputs / case["folder"] / name)
    return outputs


@pytest.fixture
def copies(exported: Path, computed: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Both folders, for a test to spoil."""
    shutil.copytree(exported, tmp_path / "cases")
    shutil.copytree(computed, tmp_path / "outputs")
    return tmp_path / "cases", tmp_path / "outputs"


def judged(folders: tuple[Path, Path], *options: str) -> tuple[int, list[str], dict[str, Any]]:
    """Exit code, what is printed, and the failures by case as they are written."""
    out = folders[1].parent / "judged.json"
    code, text = assay("judge", folders[0], "--outputs", folders[1], "--out", out, *options)
    if not out.is_file():
        return code, text.splitlines(), {}
    data = json.loads(out.read_text())
    check_shape(data, judging.SHAPE)
    return code, text.splitlines(), {case["case"]: case["failures"] for case in data["cases"] if case["failures"]}


# ------------------------------------------------------------------------------------ what is written


def test_the_manifest_lists_every_selected_case(exported: Path) -> None:
    manifest = read_manifest(exported)
    table = load_table("neutron@1.3")
    assert manifest.table["sha256"] == table.sha256
    assert {entry.case for entry in manifest.cases} == {case.id for case in select(all_cases(table), SOME)}
    assert len(manifest.cases) > 2
    files = {f"{case['folder']}/{name}" for case in listed(exported) for name in case["files"]}
    found = {path.relative_to(exported).as_posix() for path in exported.rglob("*") if path.is_file()}
    assert found == files | {"manifest.json", "table.toml"}


def test_onnx_itself_takes_the_models_and_the_folder(exported: Path) -> None:
    """The layout is that of ONNX's own backend tests, and its loader reads it."""
    tests = load_model_tests(str(exported.parent), exported.name)
    assert sorted(test.name for test in tests) == sorted(case["folder"] for case in listed(exported))
    for case in listed(exported):
        onnx.checker.check_model(onnx.load(exported / case["folder"] / case["model"]), full_check=True)


def test_the_same_cases_are_the_same_bytes(exported: Path, tmp_path: Path) -> None:
    expression = "aten.relu.default/operator/accept"
    for name in ("a", "b"):
        assert assay("export", BACKEND, tmp_path / name, "-k", expression)[0] == 0
    first, second = (
        {path.name: path.read_bytes() for path in sorted((tmp_path / name).rglob("*")) if path.is_file()}
        for name in ("a", "b")
    )
    assert first == second


def test_an_existing_folder_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "note").write_text("mine")
    code, text = assay("export", BACKEND, tmp_path)
    assert (code, text) == (2, f"assay: {tmp_path}: exists already, expected a new folder\n")
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


def test_nothing_selected_is_an_error_and_writes_nothing(tmp_path: Path) -> None:
    code, text = assay("export", BACKEND, tmp_path / "new", "-k", "nothing_is_called_so")
    assert code == 2 and "matches none of " in text
    assert list(tmp_path.iterdir()) == []


def test_what_is_left_out_has_a_reason(tmp_path: Path) -> None:
    code, text = assay("export", BACKEND, tmp_path / "x", "-k", "aten.avg_pool2d.default/divisor_override")
    assert code == 0 and "left out, divisor_override: " in text
    left_out = read_manifest(tmp_path / "x").left_out
    assert {one.code for one in left_out} == {"divisor_override"}
    assert all("AveragePool has no divisor_override" in one.reason for one in left_out)


def test_run_time_quantisation_has_no_onnx_form() -> None:
    table = load_table("xnnpack@1.5")
    case = next(case for case in all_cases(table) if any(step.dynamic for step in case.graph.steps))
    with pytest.raises(FormError, match="run time to uint8 only"):
        onnx_model(build(case.graph, table.preserve), "x")


def test_operands_of_two_real_types_have_no_form_in_onnx() -> None:
    values = Value("x", (2, 3), None), Value("y", (2, 3), None, dtype="float16")
    graph = Graph(values, (Step("z", "aten.cat.default", ((Ref("x"), Ref("y")),)),), (Ref("z"),))
    with pytest.raises(FormError, match="operands of float16 and float32, expected one float type: ONNX promotes none"):
        onnx_model(build(graph), "x")


def test_an_operator_has_one_form_in_onnx() -> None:
    """The second golden's, but where indices are asked for, which it does not compare."""
    assert {name for name in OWN if onnx_form(name)} == {"aten.max_pool2d_with_indices.default"}


def test_of_several_results_the_first_is_written_where_only_that_has_a_form() -> None:
    pool = Step("y", "aten.max_pool3d_with_indices.default", (Ref("x"), (2,), (1,)), outputs=2)

    def nodes(index: int) -> list[onnx.NodeProto]:
        steps = (pool, Step("z", "aten.abs.default", (Ref("y", index),)))
        graph = Graph((Value("x", (1, 2, 3, 4, 5), None),), steps, (Ref("z"),))
        return list(onnx_model(build(graph), "x").graph.node)

    first, second = nodes(0)
    assert (first.op_type, second.op_type, list(second.input)) == ("MaxPool", "Abs", list(first.output))
    with pytest.raises(FormError, match="expected a tensor"):
        nodes(1)


@pytest.mark.parametrize("format_", ["pt2", "tflite", "pte"])
def test_other_formats(format_: str, tmp_path: Path) -> None:
    """They have the same layout; the goldens are right by the gates, and the model is of that format."""
    expression = "aten.relu.default/operator/accept/baseline or aten.relu.default/quantized/outside/float_input"
    assert assay("export", BACKEND, tmp_path / "x", "--format", format_, "-k", expression)[0] == 0
    manifest = read_manifest(tmp_path / "x")
    assert "aten.relu.default/operator/accept/baseline" in [entry.case for entry in manifest.cases]
    assert len(manifest.cases) == (1 if format_ == "tflite" else 2)
    marks = {"pt2": (0, b"PK"), "tflite": (4, b"TFL3"), "pte": (4, b"ET12")}
    at, mark = marks[format_]
    for entry in manifest.cases:
        assert entry.codes == (format_ == "tflite")
        assert (tmp_path / "x" / entry.folder / entry.model).read_bytes()[at : at + len(mark)] == mark
    assert judged((tmp_path / "x", goldens(tmp_path / "x", tmp_path / "y")))[0] == 0


def by_torch(model: Path, inputs: Sequence[Array]) -> Sequence[Array]:
    """The outputs of an exported program, read back by torch."""
    program = torch.export.load(str(model)).module()
    found = program(*map(torch.from_numpy, inputs))
    return [x.numpy() for x in (found if isinstance(found, list | tuple) else [found])]


@pytest.mark.long
@pytest.mark.parametrize(
    "backend", [BACKEND, "npu_assay.partitioners.xnnpack:backend", "npu_assay.partitioners.ethosu:ethos_u85"]
)
def test_exported_programs_are_read_by_torch(backend: str, tmp_path: Path) -> None:
    """A few operators of each backend: what torch makes of the files is within the gates."""
    expression = "operator/accept/baseline and (relu or linear or avg_pool or cat or mul)"
    assert assay("export", backend, tmp_path / "x", "--format", "pt2", "-k", expression)[0] == 0
    assert len(read_manifest(tmp_path / "x").cases) >= 4
    run_all(tmp_path / "x", tmp_path / "y", by_torch)
    code, text, failures = judged((tmp_path / "x", tmp_path / "y"))
    assert (code, failures) == (0, {}), text


def test_only_tflite_compilers_make_tflite(tmp_path: Path) -> None:
    code, _ = assay("export", "fake_backend:backend", tmp_path / "x", "--format", "tflite", "-k", "baseline")
    assert code == 0
    assert {one.code for one in read_manifest(tmp_path / "x").left_out} <= {"format", "compiler", "codes", "device"}
    assert not read_manifest(tmp_path / "x").cases


# ------------------------------------------------------------------------------------ what is judged


def test_right_outputs_pass(exported: Path, computed: Path) -> None:
    code, text, failures = judged((exported, computed))
    assert (code, failures) == (0, {})
    count = len(listed(exported))
    assert text == [f"{count} cases, {count} pass, 0 fail"]


def test_the_goldens_themselves_pass(exported: Path, tmp_path: Path) -> None:
    assert judged((exported, goldens(exported, tmp_path / "outputs")))[0] == 0


def test_the_exported_folder_is_no_folder_of_results(exported: Path, tmp_path: Path) -> None:
    """Nor is a copy of it, in which nobody knows what was computed."""
    shutil.copytree(exported, tmp_path / "copy")
    for outputs in (exported, exported / ".." / exported.name, tmp_path / "copy"):
        code, text = assay("judge", exported, "--outputs", outputs, "--out", tmp_path / "judged.json")
        assert code == 2 and "holds manifest.json" in text and len(text.splitlines()) == 1
    assert not (tmp_path / "judged.json").exists()


def first_output(folders: tuple[Path, Path]) -> tuple[str, Path]:
    """A case, and the file of what was computed for it."""
    case = next(case for case in listed(folders[0]) if case["case"] == "aten.relu.default/operator/accept/baseline")
    return case["case"], folders[1] / case["folder"] / "output_0.pb"


def one_failure(folders: tuple[Path, Path], *options: str) -> tuple[str, str]:
    """The only failure of the only failing case."""
    code, _, failures = judged(folders, *options)
    assert code == 1 and list(failures) == [first_output(folders)[0]]
    (failure,) = failures[first_output(folders)[0]][:1]
    return failure["check"], failure["message"]


def test_one_wrong_code_is_noticed(copies: tuple[Path, Path]) -> None:
    _, path = first_output(copies)
    array = read(path).copy()
    step = float(np.min(np.diff(np.unique(array))))
    array.flat[3] += 2 * step
    write(path, array)
    check, message = one_failure(copies)
    assert check == "gate1" and message.startswith("out[")


def test_one_step_is_noticed_where_a_scheme_is_named(copies: tuple[Path, Path]) -> None:
    """The goldens have the exact codes of the table's scheme; a code beside one of them is wrong then."""
    shutil.rmtree(copies[1])
    goldens(*copies)
    assert judged(copies, "--rescale", "tflite_double_round")[0] == 0
    path = first_output(copies)[1].parent / "test_data_set_0" / "output_0.pb"
    array = read(path).copy()
    array.flat[3] += float(np.min(np.diff(np.unique(array))))
    write(path, array)
    check, message = one_failure(copies, "--rescale", "tflite_double_round")
    assert check == "gate1" and "(exact); 1 of" in message


def test_other_types_shapes_and_nan_are_noticed(copies: tuple[Path, Path]) -> None:
    _, path = first_output(copies)
    array = read(path).copy()
    write(path, array.astype(np.float64))
    assert one_failure(copies)[0] == "dtype"
    write(path, array.astype(np.uint16))
    assert one_failure(copies) == ("output", "output_0.pb: found numbers of ONNX type 4, which no output has")
    write(path, array[..., :-1])
    assert one_failure(copies)[0] == "shape"
    array.flat[0] = np.nan
    write(path, array)
    assert one_failure(copies)[0] == "finite"


def test_missing_truncated_and_extra_files_are_noticed(copies: tuple[Path, Path]) -> None:
    _, path = first_output(copies)
    data = path.read_bytes()
    path.write_bytes(data[:-5])
    assert one_failure(copies)[0] == "output"
    path.write_bytes(b"")
    assert one_failure(copies)[0] == "output"
    path.write_bytes(data)
    shutil.copy(path, path.with_name("output_1.pb"))
    assert one_failure(copies) == ("output", "output_1.pb is one too many: the case has 1 output")
    path.with_name("output_1.pb").rename(path.with_name("output_0.npy"))
    assert one_failure(copies) == ("output", "output_0 is there twice: output_0.npy and output_0.pb")
    path.with_name("output_0.npy").unlink()
    path.unlink()
    assert one_failure(copies) == ("output", "output_0.pb or .npy is missing")
    path.parent.rmdir()
    assert one_failure(copies) == ("output", "found no folder with outputs of this case")


def test_a_file_that_numpy_chokes_on_fails_its_case_alone(copies: tuple[Path, Path]) -> None:
    _, path = first_output(copies)
    path.unlink()
    path.with_suffix(".npy").write_bytes(b"\x93NUMPY\x01\x00\x05\x00(((((")
    check, message = one_failure(copies)
    assert check == "output" and message.startswith("output_0.npy: not an .npy file: ")


def test_big_endian_numbers_are_numbers(copies: tuple[Path, Path]) -> None:
    _, path = first_output(copies)
    array = read(path)
    path.unlink()
    write(path.with_suffix(".npy"), array.astype(array.dtype.newbyteorder(">")))
    assert judged(copies)[0] == 0


@pytest.mark.parametrize("name", ["output_00.npy", "output_1.NPY", "result.pb", "output_-1.pb"])
def test_tensor_files_of_other_names_are_noticed(name: str, copies: tuple[Path, Path]) -> None:
    _, path = first_output(copies)
    path.with_name("input_0.pb").write_bytes(b"")
    path.with_name("log.txt").write_text("done")
    assert judged(copies)[0] == 0
    path.with_name(name).write_bytes(b"")
    message = f"{name} is one too many: outputs are named output_0, output_1, ..."
    assert one_failure(copies) == ("output", message)


def test_outputs_of_no_case_are_noticed(copies: tuple[Path, Path]) -> None:
    (copies[1] / "unknown").mkdir()
    (copies[1] / "stray.npy").write_bytes(b"")
    (copies[1] / "log.txt").write_text("done")
    code, _, failures = judged(copies)
    assert code == 1 and {name: found[0]["check"] for name, found in failures.items()} == {
        "unknown": "extra",
        "stray.npy": "extra",
    }


# ------------------------------------------------------------------------------------ what is not believed


def golden_file(folders: tuple[Path, Path]) -> Path:
    case = next(case for case in listed(folders[0]) if case["case"] == first_output(folders)[0])
    name: str = case["outputs"][0]
    return folders[0] / str(case["folder"]) / name


def reseal(folder: Path, edit: Any) -> None:
    """Change the manifest as somebody would who knows how it is sealed."""
    path = folder / "manifest.json"
    data = json.loads(path.read_text())
    edit(data)
    del data[SEAL]
    path.write_text(json.dumps(data | {SEAL: _seal(data)}))


def test_an_edited_golden_is_noticed_though_its_digest_fits(copies: tuple[Path, Path]) -> None:
    path = golden_file(copies)
    array = read(path).copy()
    array.flat[0] += float(np.min(np.diff(np.unique(array))))
    write(path, array)
    check, message = one_failure(copies)
    assert check == "edited" and "its digest differs" in message
    name, digest = path.relative_to(path.parent.parent).as_posix(), sha256(path.read_bytes())

    def edit(data: dict[str, Any]) -> None:
        for case in data["cases"]:
            if case["case"] == first_output(copies)[0]:
                case["files"][name] = digest

    reseal(copies[0], edit)
    assert one_failure(copies) == ("edited", f"{name}: not the numbers that follow from the case")


def test_an_edited_model_is_noticed(copies: tuple[Path, Path]) -> None:
    path = golden_file(copies).parent.parent / "model.onnx"
    path.write_bytes(path.read_bytes() + b"\x00")
    assert one_failure(copies) == ("edited", "model.onnx: is not the file that was exported (its digest differs)")


def test_an_edited_manifest_is_refused(copies: tuple[Path, Path]) -> None:
    path = copies[0] / "manifest.json"
    path.write_text(path.read_text().replace('"expect": "accept"', '"expect": "reject"', 1))
    code, text, _ = judged(copies)
    assert code == 2 and "edited" in text[0]


def test_a_manifest_that_keeps_quiet_about_a_case_fails(copies: tuple[Path, Path]) -> None:
    name = first_output(copies)[0]

    def edit(data: dict[str, Any]) -> None:
        data["cases"] = [case for case in data["cases"] if case["case"] != name]

    shutil.rmtree(first_output(copies)[1].parent)
    reseal(copies[0], edit)
    code, _, failures = judged(copies)
    assert code == 1
    assert failures == {
        name: [
            {"check": "manifest", "message": "the manifest has neither files of it nor a reason why it was left out"}
        ]
    }


def test_a_table_that_is_not_the_suites_is_refused(copies: tuple[Path, Path]) -> None:
    path = copies[0] / "table.toml"
    path.write_text(path.read_text() + "# edited\n")
    assert judged(copies)[0] == 2
    reseal(copies[0], lambda data: data["table"].update(sha256=sha256(path.read_bytes())))
    code, text, _ = judged(copies)
    assert code == 2 and "differs from neutron@1.3" in text[0]


def test_a_file_outside_of_the_folder_is_not_read(copies: tuple[Path, Path]) -> None:
    def edit(data: dict[str, Any]) -> None:
        for case in data["cases"]:
            if case["case"] == first_output(copies)[0]:
                case["files"]["../../secret"] = "0"

    reseal(copies[0], edit)
    assert one_failure(copies) == (
        "manifest",
        "found a digest of ../../secret, expected those of the model, inputs and outputs",
    )


def test_errors_of_use(exported: Path, tmp_path: Path) -> None:
    assert assay("judge", tmp_path, "--outputs", tmp_path)[0] == 2
    code, text = assay("judge", exported, "--outputs", tmp_path / "none")
    assert code == 2 and "no such folder" in text
    code, text = assay("judge", exported, "--outputs", tmp_path, "--rescale", "magic")
    assert code == 2 and "expected one of floats, " in text
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(ManifestError, match="not a manifest"):
        read_manifest(tmp_path)


def test_no_case_judged_is_no_pass(exported: Path) -> None:
    manifest: Manifest = read_manifest(exported)
    assert not judging.Report(manifest, "", "floats", ()).passed


# ------------------------------------------------------------------------------------ hostile files


@pytest.mark.parametrize("kind", [".pb", ".npy"])
def test_tensors_come_back_and_no_part_of_one_does(kind: str) -> None:
    for dtype in (torch.float32, torch.float16, torch.int8, torch.int64, torch.bool):
        tensor = torch.arange(6).reshape(2, 3).to(dtype)
        data = tensor_bytes(tensor, "x", kind)
        assert torch.equal(tensor_from(data, kind), tensor)
        for length in range(len(data)):
            with pytest.raises(TensorFileError):
                tensor_from(data[:length], kind)


def test_objects_far_away_numbers_and_huge_sizes_are_not_read() -> None:
    proto = onnx.TensorProto(data_type=1, dims=[2**40])
    with pytest.raises(TensorFileError, match="found 0 numbers, expected those of sizes"):
        tensor_from(proto.SerializeToString(), ".pb")
    proto = onnx.TensorProto(data_type=1, dims=[1], data_location=onnx.TensorProto.EXTERNAL)
    proto.external_data.add(key="location", value="/etc/hostname")
    with pytest.raises(TensorFileError, match="in another file"):
        tensor_from(proto.SerializeToString(), ".pb")
    header = b"\x93NUMPY\x01\x00F\x00{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(79) + b"\n"
    with pytest.raises(TensorFileError, match=r"Python objects|not an \.npy"):
        tensor_from(header + b"x" * 8, ".npy")


def test_numbers_that_are_there_twice_are_not_read() -> None:
    proto = onnx.numpy_helper.from_array(np.ones(2, np.float32))
    proto.float_data.extend([2.0, 2.0])
    with pytest.raises(TensorFileError, match="in several fields: raw_data and float_data"):
        tensor_from(proto.SerializeToString(), ".pb")
