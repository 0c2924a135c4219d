"""Compiling the GPU kernels with NVRTC, and checking without a GPU that they compile for every supported architecture.

``python -m fox_env.backends.nvrtc`` compiles for sm_80, sm_90 and sm_100 and prints registers and spills.
"""

from __future__ import annotations

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fox_env import _layout
from fox_env.errors import BackendError

__all__ = [
    "ARCHITECTURES",
    "COMPILED_RULES",
    "KernelUse",
    "compile_kernels",
    "kernel_source",
    "kernel_use",
    "options",
    "supported_architectures",
    "target_for",
]

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
COMPILED_RULES = tuple(int(rules) for rules in (_layout.Rules.NONE, _layout.Rules.EXITS, _layout.Rules.ALL))
"""``Rules`` bits that are compiled without a GPU: the plain step, the one with exits, and the one with every rule."""

_INCLUDE = re.compile(r'^#include "([\w.]+)"$', re.MULTILINE)


def kernel_source() -> str:
    """``env_kernels.cu`` with every header written in place, once: NVRTC's program cache takes no include path."""
    seen: set[str] = set()

    def expand(name: str) -> str:
        seen.add(name)
        text = (_layout.source_dir() / name).read_text(encoding="utf-8").replace("#pragma once\n", "")
        return _INCLUDE.sub(lambda m: "" if m.group(1) in seen else expand(m.group(1)), text)

    body = expand("env_kernels.cu")
    sizes = "\n".join(
        f'static_assert(sizeof({name}) == {size}, "layout.cuh and fox_env/_layout.py disagree about {name}");'
        for name, size in _layout.STRUCTURES.items()
    )
    return f"{body}\n{sizes}\n"


def options(arch: str, *, rules: int = 0, report: bool = False) -> Any:
    """NVRTC options of the arithmetic contract (platform.cuh), for ``arch`` such as ``sm_90``."""
    from cuda.core import ProgramOptions

    return ProgramOptions(
        std="c++17",
        arch=arch,
        define_macro=[("FOX_RULES", f"{rules}u")],
        fma=False,
        prec_div=True,
        prec_sqrt=True,
        ftz=False,
        ptxas_options=["-v"] if report else None,
    )


def compile_kernels(
    arch: str,
    *,
    target: str = "cubin",
    rules: int = 0,
    cached: bool = True,
    log: io.StringIO | None = None,
) -> Any:
    """Compile for ``arch`` to a cubin (or ``ptx``), with the groups of rules of these ``Rules`` bits.

    With ``cached`` the program cache on disk is used.

    Raises
    ------
    BackendError
        If cuda-core or NVRTC is missing, or NVRTC refuses the source or the architecture.
    """
    try:
        from cuda.core import Program
        from cuda.core._utils.cuda_utils import CUDAError
        from cuda.core.utils import FileStreamProgramCache
    except ImportError as error:
        raise BackendError(
            f"the CUDA backend needs cuda-core ({error}); install it with `pip install 'fox-futures[cuda]'` "
            "or use backend='cpu'"
        ) from error
    try:
        program = Program(
            kernel_source(), code_type="c++", options=options(arch, rules=rules, report=log is not None)
        )
        cache = FileStreamProgramCache() if cached and log is None else None
        return program.compile(target, logs=log, cache=cache)
    except (CUDAError, RuntimeError, OSError) as error:  # a missing NVRTC library is a RuntimeError
        raise BackendError(
            f"NVRTC cannot compile the kernels for {arch}: {str(error).strip()}; install an NVRTC that knows this GPU "
            "(`pip install -U 'fox-futures[cuda]'`) or use backend='cpu'"
        ) from error


def supported_architectures() -> list[int]:
    """What the installed NVRTC compiles for, such as ``[80, 90, 100]``.

    Raises
    ------
    BackendError
        If there is no NVRTC.
    """
    try:
        from cuda.bindings import nvrtc

        return list(nvrtc.nvrtcGetSupportedArchs()[1])
    except (ImportError, RuntimeError) as error:  # a missing library is a RuntimeError
        raise BackendError(
            f"NVRTC is missing ({_first_line(error)}); install it with `pip install 'fox-futures[cuda]'` "
            "or use backend='cpu'"
        ) from error


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def target_for(capability: tuple[int, int], supported: Iterable[int]) -> tuple[str, str]:
    """(architecture, target) to compile for on a GPU of this compute capability.

    A GPU that this NVRTC knows, or one of whose family it knows an older member, gets a cubin. Another gets PTX of
    the newest architecture before it, which the driver finishes. One older than all is refused.

    Raises
    ------
    BackendError
        If this NVRTC compiles only for newer GPUs.

    Examples
    --------
    >>> target_for((9, 0), [80, 90, 100])
    ('sm_90', 'cubin')
    >>> target_for((13, 0), [80, 90, 100])
    ('compute_100', 'ptx')
    """
    known = sorted(supported)
    wanted = 10 * capability[0] + capability[1]
    if wanted in known:
        return f"sm_{wanted}", "cubin"
    older = [arch for arch in known if arch < wanted]
    if not older:
        raise BackendError(
            f"this GPU has compute capability {capability[0]}.{capability[1]}, and the installed NVRTC compiles for "
            f"{known[0] // 10}.{known[0] % 10} and newer; use backend='cpu' or an older CUDA release"
        )
    if wanted < known[-1] and older[-1] // 10 == capability[0]:
        return f"sm_{older[-1]}", "cubin"
    return f"compute_{older[-1]}", "ptx"


@dataclass(frozen=True)
class KernelUse:
    """What one kernel takes of a multiprocessor."""

    arch: str
    rules: int
    kernel: str
    registers: int
    spill_bytes: int
    shared_bytes: int


def kernel_use(arch: str, rules: int) -> Iterator[KernelUse]:
    """Compile for ``arch`` with these ``Rules`` bits, and read the assembler's report."""
    log = io.StringIO()
    compile_kernels(arch, rules=rules, cached=False, log=log)
    for part in re.split(r"Compiling entry function '", log.getvalue())[1:]:
        registers = re.search(r"Used (\d+) registers", part)
        spills = re.search(r"(\d+) bytes spill stores, (\d+) bytes spill loads", part)
        shared = re.search(r"(\d+) bytes smem", part)
        yield KernelUse(
            arch=arch,
            rules=rules,
            kernel=part.split("'", 1)[0],
            registers=int(registers.group(1)) if registers else 0,
            spill_bytes=sum(map(int, spills.groups())) if spills else 0,
            shared_bytes=int(shared.group(1)) if shared else 0,
        )


def main() -> None:
    """Compile every kernel for every supported architecture and print what each takes."""
    print(f"{'arch':8} {'kernel':26} {'rules':>5} {'registers':>9} {'spills':>7} {'shared':>7}")
    for arch, rules in itertools.product(ARCHITECTURES, COMPILED_RULES):
        found = list(kernel_use(arch, rules))
        if not found:
            raise SystemExit(f"{arch}: NVRTC compiled, but its report names no kernel")
        for use in found:
            print(
                f"{use.arch:8} {use.kernel:26} {rules:5} {use.registers:9} {use.spill_bytes:7} "
                f"{use.shared_bytes:7}"
            )


if __name__ == "__main__":
    main()
