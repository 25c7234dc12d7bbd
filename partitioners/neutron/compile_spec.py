"""The Neutron compile spec: documented options as a list of key-value pairs.

Keys, order and encoding are those of ExecuTorch v1.3.1, with `release` after them if it is not 1.3. Readers look
values up by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from npu_assay.partitioners.exir.backend import CompileSpec
from npu_assay.partitioners.neutron import exclusion
from npu_assay.partitioners.neutron.releases import FIRST, checked_release
from npu_assay.partitioners.neutron.target import NeutronTargetSpec

OUTPUT_FORMAT = "tflite"
NOT_TO_DELEGATE = exclusion.OPTION
RELEASE = "release"


def spec_value(compile_spec: Iterable[CompileSpec], key: str, default: str = "") -> str:
    """The text stored under `key`, or `default` when there is none. Raises ValueError for invalid UTF-8."""
    for spec in compile_spec:
        if spec.key == key:
            return bytes(spec.value).decode()
    return default


def spec_flag(compile_spec: Iterable[CompileSpec], key: str, default: bool = False) -> bool:
    """The boolean stored under `key` as `True` or `False`. Raises ValueError for any other text."""
    text = spec_value(compile_spec, key, str(default))
    if text not in ("True", "False"):
        raise ValueError(f"compile spec {key} is {text!r}, expected 'True' or 'False'")
    return text == "True"


def spec_release(compile_spec: Iterable[CompileSpec]) -> str:
    """The release that a compile spec names, 1.3 where it names none. Raises ValueError for one that is not known."""
    return checked_release(spec_value(compile_spec, RELEASE, FIRST))


def _flags_text(extra_flags: str | Sequence[str] | None) -> str:
    if extra_flags is None or isinstance(extra_flags, str):
        return extra_flags if extra_flags is not None else ""
    if isinstance(extra_flags, (list, tuple)) and all(isinstance(flag, str) for flag in extra_flags):
        return " ".join(extra_flags)
    raise TypeError(f"extra_flags is {extra_flags!r}, expected a string or a list of strings")


def _operators_text(operators: Sequence[str] | None) -> str:
    """Join operator names, as parts of node names."""
    if operators is None:
        return ""
    if not isinstance(operators, (list, tuple)) or not all(isinstance(name, str) for name in operators):
        raise TypeError(f"{NOT_TO_DELEGATE} is {operators!r}, expected a list of strings")
    return ",".join(map(exclusion.entry_text, operators))


def _flag_text(name: str, value: bool) -> str:
    if not isinstance(value, bool):
        raise TypeError(f"{name} is {value!r}, expected True or False")
    return str(value)


class NeutronCompileSpecBuilder:
    """Collects the options; `neutron_compile_spec(...).build()` makes the list."""

    def __init__(self) -> None:
        self.compile_spec: list[CompileSpec] = []

    def neutron_compile_spec(
        self,
        config: str,
        extra_flags: str | Sequence[str] | None = None,
        operators_not_to_delegate: Sequence[str] | None = None,
        use_neutron_for_format_conversion: bool = True,
        fetch_constants_to_sram: bool = False,
        dump_kernel_selection_code: bool = False,
        use_new_flow_neutron_c: bool = False,
        release: str = FIRST,
    ) -> NeutronCompileSpecBuilder:
        """Set the options, once per builder.

        release: NXP's release of operator support, "1.3" or "1.4".

        Raises ValueError for an unknown SoC, operator name or release, TypeError for a value of another type
        and AssertionError when called twice.
        """
        if self.compile_spec:
            raise AssertionError("neutron_compile_spec() was called before, expected one call per builder")
        if use_new_flow_neutron_c:
            raise ValueError("use_new_flow_neutron_c is True, expected False: `release` says whose rules hold")
        entries = {
            "output_format": OUTPUT_FORMAT,
            "compile_flags": _flags_text(extra_flags),
            "target": NeutronTargetSpec(config).get_name(),
            NOT_TO_DELEGATE: _operators_text(operators_not_to_delegate),
        }
        flags = {
            "use_neutron_for_format_conversion": use_neutron_for_format_conversion,
            "fetch_constants_to_sram": fetch_constants_to_sram,
            "dump_kernel_selection_code": dump_kernel_selection_code,
            "use_new_flow_neutron_c": use_new_flow_neutron_c,
        }
        entries.update({name: _flag_text(name, value) for name, value in flags.items()})
        if checked_release(release) != FIRST:
            entries[RELEASE] = release
        self.compile_spec = [CompileSpec(key, text.encode()) for key, text in entries.items()]
        return self

    def build(self) -> list[CompileSpec]:
        """The key-value pairs. Raises ValueError before `neutron_compile_spec` was called."""
        if not self.compile_spec:
            raise ValueError("no options set, expected neutron_compile_spec(config, ...) before build()")
        return [CompileSpec(spec.key, spec.value) for spec in self.compile_spec]


def generate_neutron_compile_spec(
    config: str,
    system_config: str | None = None,
    extra_flags: str | Sequence[str] | None = None,
    operators_not_to_delegate: Sequence[str] | None = None,
    use_neutron_for_format_conversion: bool = True,
    fetch_constants_to_sram: bool = False,
    dump_kernel_selection_code: bool = False,
    use_new_flow_neutron_c: bool = False,
    release: str = FIRST,
) -> list[CompileSpec]:
    """The compile spec for one SoC, e.g. "imxrt700".

    `system_config` is accepted and unused, as in ExecuTorch. Errors: `NeutronCompileSpecBuilder`.
    """
    return (
        NeutronCompileSpecBuilder()
        .neutron_compile_spec(
            config,
            extra_flags=extra_flags,
            operators_not_to_delegate=operators_not_to_delegate,
            use_neutron_for_format_conversion=use_neutron_for_format_conversion,
            fetch_constants_to_sram=fetch_constants_to_sram,
            dump_kernel_selection_code=dump_kernel_selection_code,
            use_new_flow_neutron_c=use_new_flow_neutron_c,
            release=release,
        )
        .build()
    )
