"""Hostile texts in `.pt2` archives: sizes, which torch evaluates, names, which it writes into Python, and operators."""

from __future__ import annotations

import json

from pt2_archives import CODE, HOSTILE, JSON, MARKER, MODEL, WEIGHTS, Archive, of, several

__all__ = ["HOSTILE"]

# ------------------------------------------------------------------------------------ sizes, which sympy evaluates


def _expression(text: str) -> JSON:
    return {"as_expr": {"expr_str": text, "hint": {"as_int": 2}}}


def _size(archive: Archive, text: str) -> None:
    archive.graph["tensor_values"]["x"]["sizes"][0] = _expression(text)


several(
    "size",
    _size,
    {
        "code": CODE,
        "a call": f"__import__('os').system('touch {MARKER}')",
        "a call in a product": f"Mul(Integer(2), {CODE})",
        "an attribute": f"Symbol('s77').__class__.__init__.__globals__['sys'].modules['os'].system('touch {MARKER}')",
        "a lambda": f"(lambda: {CODE})()",
        "a comprehension": f"[{CODE} for _ in (1,)][0]",
        "an assumption": f"Symbol('s77', positive={CODE})",
        "the name of a symbol": f"Symbol('s77{CODE}')",
        "a string in a product": f'Mul(Integer(2), "{CODE}")',
        "a function of sympy": f"sympify({CODE!r})",
        "a function's name": f"Function({CODE!r})(2)",
        "a starred call": f"Mul(*[{CODE}])",
        "an assignment": f"(s := {CODE})",
        "a formatted text": f'f"{{{CODE}}}"',
        "a power without an end": "Pow(Integer(9), Pow(Integer(9), Integer(99)))",
        "a power of powers": f"{'Pow(' * 40}Integer(9){', Integer(9))' * 40}",
        "a shift without an end": "Integer(1) << 99999999999",
        "a long one": "s77" + "+s77" * 2_000,
        "a deep one": "-" * 3_000 + "s77",
        "a large number": f"Integer({9**80})",
        "a symbol that is counted to": "Symbol('u99999999999', integer=True)",
        "a name of Python": "copyright",
    },
)


@of("size")
def _a_stride(archive: Archive) -> None:
    archive.graph["tensor_values"]["x"]["strides"][0] = _expression(CODE)


@of("size")
def _an_offset(archive: Archive) -> None:
    archive.graph["tensor_values"]["x"]["storage_offset"] = _expression(CODE)


@of("size")
def _a_number(archive: Archive) -> None:
    archive.graph["sym_int_values"][next(iter(archive.graph["sym_int_values"]))] = _expression(CODE)


@of("size")
def _a_truth(archive: Archive) -> None:
    archive.graph["sym_bool_values"]["x"] = {"as_expr": {"expr_str": CODE, "hint": None}}


@of("size")
def _a_real(archive: Archive) -> None:
    archive.graph["sym_float_values"]["x"] = {"as_expr": {"expr_str": CODE, "hint": None}}


@of("size")
def _within_a_branch(archive: Archive) -> None:
    next(iter(archive.branch()["graph"]["tensor_values"].values()))["sizes"][0] = _expression(CODE)


@of("size")
def _of_a_weight(archive: Archive) -> None:
    archive.json[WEIGHTS]["config"]["b"]["tensor_meta"]["sizes"][0] = _expression(CODE)


def _ranges(archive: Archive, name: str) -> None:
    archive.json[MODEL]["range_constraints"][name] = {"min_val": 0, "max_val": 4}


several("size", _ranges, {"a range that is counted to": "u99999999999", "a range by another name": CODE})
several(
    "size",
    lambda archive, guards: archive.json[MODEL].update(guards_code=guards),
    {
        "a guard": [f"{CODE} is not None"],
        "a guard with a lambda": [f"(lambda: {CODE})()"],
        "a guard of two lines": [f"True)\n  {CODE}\n  (True"],
        "a guard that is no text": [[CODE]],
        "guards that are no list": CODE,
    },
)


# ------------------------------------------------------------------------------------ names, which FX writes


def _renamed(archive: Archive, names: tuple[str, str]) -> None:
    """One name everywhere."""
    before, after = (json.dumps(name) for name in names)
    archive.json[MODEL] = json.loads(json.dumps(archive.json[MODEL]).replace(before, after))


several(
    "name",
    _renamed,
    {
        "an input": ("x", f"x={CODE}"),
        "a parameter's input": ("p_fc_weight", f"p={CODE}"),
        "a result": ("relu", f"relu = {CODE}; relu"),
        "a result with a newline": ("relu", f"relu\n    {CODE}\n    relu"),
        "a result with a return": ("relu", f"relu\r    {CODE}"),
        "one of several results": ("getitem_5", f"a = {CODE}; a"),
        "a keyword": ("relu", "lambda"),
        "an empty name": ("relu", ""),
        "the name of a branch": ("true_graph_0", f"a = {CODE}; a"),
        "a branch that hides a method": ("true_graph_0", "forward"),
        "a number's name": ("sym_size_int_1", f"a={CODE}"),
        "a half of a character": ("relu", "\ud800"),
        "what Python reads as torch": ("relu", "\uff54orch"),
        "a branch that Python reads as a method": ("true_graph_0", "\uff46orward"),
    },
)


@of("name")
def _an_input_of_a_branch(archive: Archive) -> None:
    archive.branch()["graph"]["inputs"][0]["as_tensor"]["name"] = f"a={CODE}"


@of("name")
def _of_a_node(archive: Archive) -> None:
    archive.node("relu")["name"] = f"a = {CODE}; a"


@of("name")
def _of_an_argument(archive: Archive) -> None:
    archive.node("higher_order.cond")["inputs"][0].update(name=f"pred={CODE}, p", kind=2)


@of("name")
def _in_a_dict_of_arguments(archive: Archive) -> None:
    archive.node("higher_order.cond")["inputs"][3]["arg"] = {"as_string_to_argument": {f"'+{CODE}+'": {"as_int": 1}}}


def _path(archive: Archive, names: tuple[str, str]) -> None:
    before, after = (json.dumps(name) for name in names)
    archive.json = {key: json.loads(json.dumps(each).replace(before, after)) for key, each in archive.json.items()}


several(
    "name",
    _path,
    {
        "a parameter": ("fc.weight", f'fc."),{CODE},("'),
        "a buffer": ("b", f'b"),{CODE},("'),
        "a constant": ("k", f'k"),{CODE},("'),
        "a path to a class": ("fc.weight", "__class__.__call__"),
        "a path to a method": ("b", "forward"),
        "a path to torch's own": ("b", "_modules"),
        "a path with a newline": ("fc.bias", "fc.\n.bias"),
        "a path that Python reads as a class": ("b", "__\uff43lass__"),
        "a ligature in a path": ("fc.bias", "fc.\ufb01"),
    },
)


@of("name")
def _of_an_argument_of_forward(archive: Archive) -> None:
    archive.call["forward_arg_names"][0] = f"x={CODE}"


def _nested(archive: Archive, names: tuple[str, str]) -> None:
    """A key of the inputs."""
    before, after = (json.dumps(json.dumps([name]))[1:-1] for name in names)
    mode = json.dumps(json.dumps(["state", "mode"]))[1:-1]
    changed = json.dumps(json.dumps([names[1], "mode"]))[1:-1]
    archive.call["in_spec"] = archive.call["in_spec"].replace(before, after)
    if names[0] == "state":
        archive.call["in_spec"] = archive.call["in_spec"].replace(mode, changed)
    assert after in archive.call["in_spec"] or changed in archive.call["in_spec"]


several(
    "name",
    _nested,
    {
        "an input by name": ("state", f"a':{CODE},'b"),
        "a key of an input": ("h", f'h" + {CODE} + "'),
        "a key with a backslash": ("h", "h\\"),
        "a key of two lines": ("h", "h\nb"),
    },
)


def _mode(archive: Archive, text: str) -> None:
    """A text that the model is called with, which torch compares in the Python that it writes."""
    for spec in archive.signature["input_specs"]:
        if "constant_input" in spec:
            spec["constant_input"]["value"] = {"as_string": text}
    archive.graph["inputs"][-1] = {"as_string": text}


several("name", _mode, {"a text": f"plain' or {CODE} or '", "a text of two lines": f"plain'\n{CODE}"})


# ------------------------------------------------------------------------------------ operators


def _target(archive: Archive, target: str, graph: JSON | None = None) -> None:
    """A call with one text, and with nothing that torch would miss."""
    node = (graph or archive.graph)["nodes"][0]
    text = f"touch {MARKER}" if target.endswith("system") else MARKER
    arguments = [{"name": "filename", "arg": {"as_string": text}, "kind": 1}]
    if "from_file" in target:
        more = {"shared": {"as_bool": True}, "size": {"as_int": 4}}
        arguments += [{"name": name, "arg": arg, "kind": 1} for name, arg in more.items()]
    node.update(target=target, inputs=arguments)


several(
    "operator",
    _target,
    {
        target: target
        for target in (
            *("torch.os.system", "torch.sys.exit", "torch.load", "torch.save", "torch.hub.load", "torch.jit.load"),
            *("torch.ops.load_library", "torch.ops.import_module", "torch.classes.load_library", "torch.compile"),
            *("torch.serialization.pickle.loads", "torch.utils.cpp_extension.load", "torch.importlib.import_module"),
            *("torch.ops.aten.from_file.default", "torch.ops.aten.from_file.out", "torch.ops.aten.save.default"),
            *("torch.ops.aten.warn.default", "torch.ops.aten._print.default", "torch.ops.aten.relu.__class__"),
            *("torch.ops.aten.relu.default.__call__", "torch.ops.aten.set_.source_Storage", "torch.ops.aten.relu"),
            *("torch.ops.aten.sparse_coo_tensor.indices_size", "torch.ops.aten._nested_view_from_buffer.default"),
            *("torch.ops.higher_order.call_torchbind", "torch.ops.higher_order.triton_kernel_wrapper_mutation"),
            *("torch.ops.higher_order.hints_wrapper", "torch.ops.higher_order.run_const_graph"),
            *("torch.ops.profiler._record_function_enter_new.default", "torch.ops.mine.anything.default"),
            *(
                "torch.ops.quantized.linear.default",
                "torch.ops.c10d.send.default",
                "torch.ops.torchao.swizzle_mm.default",
            ),
            *("_operator.attrgetter", "_operator.methodcaller", "_operator.call", "_operator.__builtins__.get"),
            *(  # they believe strides, indices and sizes, and end in a signal
                *("torch.ops.aten._reshape_alias.default", "torch.ops.aten._reshape_alias_copy.default"),
                *("torch.ops.aten.max_pool2d_with_indices_backward.default", "torch.ops.aten.segment_reduce.default"),
                *("torch.ops.aten.adaptive_max_pool3d_backward.default", "torch.ops.aten.ctc_loss.Tensor"),
                *("torch.ops.aten.native_batch_norm.default", "torch.ops.aten._native_batch_norm_legit.default"),
            ),
            *("math.factorial", "math.__loader__.load_module", "#os:system", "builtins.eval", "os.system", ""),
        )
    },
)


@of("operator")
def _in_a_branch(archive: Archive) -> None:
    _target(archive, "torch.os.system", archive.branch()["graph"])


@of("operator")
def _as_a_branch(archive: Archive) -> None:
    archive.node("higher_order.cond")["inputs"][1]["arg"] = {"as_operator": "torch.os.system"}


@of("operator")
def _as_an_argument(archive: Archive) -> None:
    archive.node("relu")["inputs"][0]["arg"] = {"as_operator": "torch.os.system"}
