"""Running a module in StableHLO's reference interpreter, which jaxlib carries.

Nothing is compiled, so a small program takes about a millisecond. It computes op by op
as the specification says: no op is fused, and no sum is reordered. Values go in and out
as float64, complex128, booleans and integers, in which every type's numbers are exact.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax.extend.mlir import ir
from jax.extend.mlir.dialects import stablehlo

from partir.errors import PartirError
from partir.execute.jax_private import INTERPRETS_FFT
from partir.fuzz.meaning.safe import make_safe
from partir.ir.types import TensorType, numpy_name, tensor

_PLAIN = re.compile(r"u?i(8|16|32|64)")
# The interpreter ends the process on ops that it does not know.
_UNKNOWN = (
    "batch_norm_grad batch_norm_inference batch_norm_training cholesky composite "
    "custom_call dynamic_conv rng rng_bit_generator triangular_solve"
).split() + ["fft"] * (not INTERPRETS_FFT)


def can_interpret(module: Any) -> bool:
    """Whether the interpreter knows all ops of a parsed module."""
    unknown = {f"stablehlo.{name}" for name in _UNKNOWN}
    found = []

    def visit(op: Any) -> Any:
        dialect = op.name.partition(".")[0]
        known = dialect in ("builtin", "func", "stablehlo") and op.name not in unknown
        found.append(known)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return all(found)


def interpret(module: Any, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Results of a parsed module's `main`; the module is used up."""
    with module.context, ir.Location.unknown():
        make_safe(module)
        main = _main(module)
        inputs = [_element(v.type) for v in main.regions[0].blocks[0].arguments]
        outputs = [_element(t) for t in _function_type(main).results]
        _wrap(module, main)
        given = [p for a, e in zip(args, inputs, strict=True) for p in _parts(a, e)]
        made = stablehlo.eval_module(module, given)
    numbers = iter([np.array(attr) for attr in made])
    return [_whole(numbers, element) for element in outputs]


def argument_types(module: Any) -> list[TensorType]:
    """Types of what `main` takes."""
    return _tensors(_function_type(_main(module)).inputs)


def result_types(module: Any) -> list[TensorType]:
    """Types of what `main` returns."""
    return _tensors(_function_type(_main(module)).results)


def _tensors(types: Sequence[Any]) -> list[TensorType]:
    found = map(ir.RankedTensorType, types)
    return [tensor(tuple(t.shape), str(t.element_type)) for t in found]


def _function_type(function: Any) -> Any:
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def _main(module: Any) -> Any:
    for op in module.body.operations:
        if ir.StringAttr(op.attributes["sym_name"]).value == "main":
            return op
    raise PartirError("the module has no function main")


def _element(type_: Any) -> str:
    return str(ir.RankedTensorType(type_).element_type)


# Values in and out


def _carriers(element: str) -> list[str]:
    """Types of the arrays that carry values of an element type."""
    if element.startswith("complex"):
        return ["f64", "f64"]
    if _PLAIN.fullmatch(element):
        return [element]
    if "f" in element:
        return ["f64"]
    return ["ui8" if element.startswith("u") else "i8"]


def _parts(array: np.ndarray, element: str) -> list[Any]:
    parts = [array.real, array.imag] if element.startswith("complex") else [array]
    return [
        _attribute(part, carrier)
        for part, carrier in zip(parts, _carriers(element), strict=True)
    ]


def _attribute(array: np.ndarray, carrier: str) -> Any:
    dtype = np.dtype(numpy_name(carrier))
    data: Any = np.require(array.astype(dtype), requirements="C")
    if not data.size:
        return ir.Attribute.parse(f"dense<> : {_tensor(data.shape, carrier)}")
    element = ir.Type.parse(carrier)
    return ir.DenseElementsAttr.get(data, type=element, shape=data.shape)


def _whole(numbers: Any, element: str) -> np.ndarray:
    if element.startswith("complex"):
        return _complex(next(numbers), next(numbers))
    made: np.ndarray = next(numbers)
    return made.astype(bool) if element == "i1" else made


def _complex(real: np.ndarray, imaginary: np.ndarray) -> np.ndarray:
    """Both parts as they are: by arithmetic, an infinity would make the other a NaN."""
    made = np.empty(real.shape, np.complex128)
    made.real, made.imag = real, imaginary
    return made


def _tensor(shape: Sequence[int], element: str) -> str:
    return f"tensor<{''.join(f'{n}x' for n in shape)}{element}>"


# A main around the module's own, which converts


def _wrap(module: Any, main: Any) -> None:
    function = _function_type(main)
    main.attributes["sym_name"] = ir.StringAttr.get("wrapped")
    main.attributes["sym_visibility"] = ir.StringAttr.get("private")
    text = _wrapper(list(function.inputs), list(function.results))
    declared = f"func.func private @wrapped{function}"
    wrapper = ir.Module.parse(f"{text}\n{declared}", module.context)
    module.body.append(_main(wrapper))


class _Lines:
    """Lines of the wrapper, and the next name."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def op(self, kind: str, operands: str, types: str, result: str) -> str:
        name = f"%w{len(self.lines)}"
        self.lines.append(f'{name} = "{kind}"({operands}) : ({types}) -> {result}')
        return name


def _wrapper(inputs: Sequence[Any], outputs: Sequence[Any]) -> str:
    made = _Lines()
    heads: list[str] = []
    operands = [_taken(made, heads, ir.RankedTensorType(t)) for t in inputs]
    types = ", ".join(map(str, inputs))
    outs = ", ".join(map(str, outputs))
    call = f'%r:{len(outputs)} = "func.call"({", ".join(operands)})'
    made.lines.append(f"{call} {{callee = @wrapped}} : ({types}) -> ({outs})")
    given: list[tuple[str, str]] = []
    for number, type_ in enumerate(outputs):
        given += _given(made, f"%r#{number}", ir.RankedTensorType(type_))
    names, types = (", ".join(part) for part in zip(*given, strict=True))
    body = "\n".join([*made.lines, f'"func.return"({names}) : ({types}) -> ()'])
    return f"func.func public @main({', '.join(heads)}) -> ({types}) {{\n{body}\n}}"


def _taken(made: _Lines, heads: list[str], type_: Any) -> str:
    """An argument as its carriers, converted."""
    shape, element, whole = list(type_.shape), str(type_.element_type), str(type_)
    names = []
    for carrier in _carriers(element):
        names.append(f"%c{len(heads)}")
        heads.append(f"{names[-1]}: {_tensor(shape, carrier)}")
    if element.startswith("complex"):
        part = _tensor(shape, element[len("complex<") : -1])
        f64 = _tensor(shape, "f64")
        both = [made.op("stablehlo.convert", n, f64, part) for n in names]
        return made.op("stablehlo.complex", ", ".join(both), f"{part}, {part}", whole)
    carried = _tensor(shape, _carriers(element)[0])
    return made.op("stablehlo.convert", names[0], carried, whole)


def _given(made: _Lines, name: str, type_: Any) -> list[tuple[str, str]]:
    """A result as its carriers, with their types."""
    shape, element, whole = list(type_.shape), str(type_.element_type), str(type_)
    if not element.startswith("complex"):
        carried = _tensor(shape, _carriers(element)[0])
        return [(made.op("stablehlo.convert", name, whole, carried), carried)]
    part, f64 = (_tensor(shape, e) for e in (element[len("complex<") : -1], "f64"))
    halves = [
        made.op(f"stablehlo.{which}", name, whole, part) for which in ("real", "imag")
    ]
    return [(made.op("stablehlo.convert", h, part, f64), f64) for h in halves]
