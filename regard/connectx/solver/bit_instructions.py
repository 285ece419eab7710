"""Processor instructions that numba does not offer by itself: count bits, find the lowest bit, prefetch."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

_instruction: Any = intrinsic  # untyped, because the results are called without the typing context


@_instruction
def popcount(typing_context, bits):  # type: ignore[no-untyped-def]
    """Return the number of set bits of a uint64."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@_instruction
def lowest(typing_context, bits):  # type: ignore[no-untyped-def]
    """Return the index of the lowest set bit of a uint64; 64 if there is none."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate


@_instruction
def prefetch(typing_context, array, index):  # type: ignore[no-untyped-def]
    """Load an element of an array into the cache, because it will be read soon."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        struct = context.make_array(signature.args[0])(context, builder, arguments[0])
        place = builder.bitcast(builder.gep(struct.data, [arguments[1]]), cgutils.voidptr_t)
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [cgutils.voidptr_t, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [cgutils.voidptr_t], kind)
        builder.call(function, [place, ir.Constant(i32, 0), ir.Constant(i32, 3), ir.Constant(i32, 1)])
        return context.get_dummy_value()

    return types.void(array, types.uint64), generate
