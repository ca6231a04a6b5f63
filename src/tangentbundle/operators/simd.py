"""Vector instructions for the CPU kernels, emitted through numba.

A plain numba loop over channels cannot keep its running sums in registers: the compiler must assume that the output
overlaps the input. Here the sums of one row and one tile of channels are explicit LLVM vectors, carried through the
loop over edges; LLVM lowers a vector to whatever the machine has (AVX-512, AVX2, NEON).
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic


class _Emitter:
    """Loads, stores and arithmetic on ``width`` channels of C-contiguous arrays of one real type."""

    def __init__(self, context, builder, real, width):
        self.context, self.b, self.width = context, builder, width
        self.real = context.get_value_type(real)
        self.align = real.bitwidth // 8
        self.vector = ir.VectorType(self.real, width)
        self.index = ir.IntType(64)

    def const(self, value: int):
        return ir.Constant(self.index, value)

    def zero(self):
        return ir.Constant(self.vector, [0.0] * self.width)

    def data(self, array_type, array):
        return self.context.make_array(array_type)(self.context, self.b, array).data

    def load(self, pointer, offset):
        """A vector of consecutive channels."""
        place = self.b.bitcast(self.b.gep(pointer, [offset]), self.vector.as_pointer())
        return self.b.load(place, align=self.align)

    def store(self, value, pointer, offset):
        place = self.b.bitcast(self.b.gep(pointer, [offset]), self.vector.as_pointer())
        self.b.store(value, place, align=self.align)

    def splat(self, scalar):
        single = self.b.insert_element(ir.Constant(self.vector, ir.Undefined), scalar, self.const(0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        return self.b.shuffle_vector(single, ir.Constant(self.vector, ir.Undefined), lanes)

    def fma(self, a, x, y):
        """a x + y, in one instruction where the machine has it."""
        product = self.b.fmul(a, x, flags=("contract",))
        return self.b.fadd(product, y, flags=("contract",))

    def loop(self, start, stop, carried):
        """Open a loop; returns its index and phi nodes. Close it with ``close``."""
        before = self.b.block
        head = self.b.append_basic_block("head")
        body = self.b.append_basic_block("body")
        done = self.b.append_basic_block("done")
        self.b.branch(head)
        self.b.position_at_end(head)
        index = self.b.phi(self.index)
        index.add_incoming(start, before)
        sums = [self.b.phi(value.type) for value in carried]
        for phi, value in zip(sums, carried, strict=True):
            phi.add_incoming(value, before)
        self.b.cbranch(self.b.icmp_signed("<", index, stop), body, done)
        self.b.position_at_end(body)
        return index, sums, (head, done)

    def close(self, index, sums, new, blocks):
        head, done = blocks
        index.add_incoming(self.b.add(index, self.const(1)), self.b.block)
        for phi, value in zip(sums, new, strict=True):
            phi.add_incoming(value, self.b.block)
        self.b.branch(head)
        self.b.position_at_end(done)


def _tile(width, emit):
    """An intrinsic ``tile(cols, values, order, x, z, y, row, start, stop, channel, alpha, beta, gamma)``."""

    @intrinsic
    def tile(typingctx, cols, values, order, x, z, y, row, start, stop, channel, alpha, beta, gamma):
        def codegen(context, builder, signature, args):
            emit(_Emitter(context, builder, values.dtype, width), signature.args, args)
            return context.get_dummy_value()

        index, real = types.int64, values.dtype
        arguments = (cols, values, order, x, z, y, index, index, index, index, real, real, real)
        return types.void(*arguments), codegen

    return tile


def _unpack(em, kinds, args):
    """Pointers, scalars, and the shape (d, channels) of the signals."""
    pointers = [em.data(kind, arg) for kind, arg in zip(kinds[:6], args[:6], strict=True)]
    shape = em.context.make_array(kinds[3])(em.context, em.b, args[3]).shape
    _, dims, channels = cgutils.unpack_tuple(em.b, shape, 3)
    return pointers, args[6:10], args[10:], dims, channels


def _finish(em, total, where, x, z, y, scalars):
    """``y = alpha total + beta x + gamma z`` at one place."""
    alpha, beta, gamma = (em.splat(s) for s in scalars)
    result = em.fma(alpha, total, em.b.fmul(beta, em.load(x, where)))
    em.store(em.fma(gamma, em.load(z, where), result), y, where)


def _emit_plane(em, kinds, args):
    """d = 2: each edge holds (w cos, w sin); a complemented column marks a reflection."""
    b = em.b
    pointers, (row, start, stop, channel), scalars, _, channels = _unpack(em, kinds, args)
    cols, values, order, x, z, y = pointers
    index, sums, blocks = em.loop(start, stop, [em.zero(), em.zero()])
    code = b.load(b.gep(cols, [index]))
    flip = b.ashr(code, ir.Constant(code.type, 31))  # 0, or -1 for a reflection
    column = b.zext(b.xor(code, flip), em.index)
    source = b.sext(b.load(b.gep(order, [column])), em.index)
    first = b.mul(b.mul(source, em.const(2)), channels)
    first = b.add(first, channel)
    c = b.load(b.gep(values, [b.mul(index, em.const(2))]))
    s = b.load(b.gep(values, [b.add(b.mul(index, em.const(2)), em.const(1))]))
    reflected = b.icmp_signed("<", code, ir.Constant(code.type, 0))
    minus_s = b.select(reflected, s, b.fneg(s))
    other_c = b.select(reflected, b.fneg(c), c)
    x0, x1 = em.load(x, first), em.load(x, b.add(first, channels))
    y0 = em.fma(em.splat(minus_s), x1, em.fma(em.splat(c), x0, sums[0]))
    y1 = em.fma(em.splat(other_c), x1, em.fma(em.splat(s), x0, sums[1]))
    em.close(index, sums, [y0, y1], blocks)
    where = b.add(b.mul(b.mul(row, em.const(2)), channels), channel)
    _finish(em, sums[0], where, x, z, y, scalars)
    _finish(em, sums[1], b.add(where, channels), x, z, y, scalars)


def _emit_block(em, kinds, args):
    """Any d: one output component at a time, over edges and input components."""
    b = em.b
    pointers, (row, start, stop, channel), scalars, dims, channels = _unpack(em, kinds, args)
    cols, values, order, x, z, y = pointers
    p, _, outer = em.loop(em.const(0), dims, [])
    e, sums, edges = em.loop(start, stop, [em.zero()])
    column = b.zext(b.load(b.gep(cols, [e])), em.index)
    source = b.sext(b.load(b.gep(order, [column])), em.index)
    first = b.add(b.mul(b.mul(source, dims), channels), channel)
    weights = b.mul(b.add(b.mul(e, dims), p), dims)
    q, partial, inner = em.loop(em.const(0), dims, sums)
    weight = em.splat(b.load(b.gep(values, [b.add(weights, q)])))
    new = em.fma(weight, em.load(x, b.add(first, b.mul(q, channels))), partial[0])
    em.close(q, partial, [new], inner)
    em.close(e, sums, partial, edges)
    where = b.add(b.mul(b.add(b.mul(row, dims), p), channels), channel)
    _finish(em, sums[0], where, x, z, y, scalars)
    em.close(p, [], [], outer)


plane_32, plane_16, plane_8, plane_4, plane_1 = (_tile(w, _emit_plane) for w in (32, 16, 8, 4, 1))
block_32, block_16, block_8, block_4, block_1 = (_tile(w, _emit_block) for w in (32, 16, 8, 4, 1))


@intrinsic
def prefetch(typingctx, x, row):
    """Ask for the cache lines of one row of a signal ``(n, d, c)``."""

    def codegen(context, builder, signature, args):
        em = _Emitter(context, builder, x.dtype, 1)
        array = context.make_array(x)(context, builder, args[0])
        _, dims, channels = cgutils.unpack_tuple(builder, array.shape, 3)
        size = builder.mul(dims, channels)
        line = em.const(64 // em.align)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        options = [ir.Constant(word, k) for k in (0, 3, 1)]  # for reading, into all levels, data
        count = builder.add(builder.udiv(size, line), em.const(1))
        index, _, blocks = em.loop(em.const(0), count, [])
        offset = builder.add(builder.mul(args[1], size), builder.mul(index, line))
        place = builder.bitcast(builder.gep(array.data, [offset]), byte)
        builder.call(function, [place, *options])
        em.close(index, [], [], blocks)
        return context.get_dummy_value()

    return types.void(x, types.int64), codegen
