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
    """An intrinsic for one row and ``width`` channels; see ``cpu.py`` for the arguments."""

    @intrinsic
    def tile(typingctx, matrix, signals, extras, row, start, stop, channel, alpha, beta, gamma):
        def codegen(context, builder, signature, args):
            kinds, values = [], []
            for kind, group in zip(signature.args[:3], args[:3], strict=True):
                kinds += list(kind)
                values += cgutils.unpack_tuple(builder, group, len(kind))
            em = _Emitter(context, builder, signals[0].dtype, width)
            emit(em, _Row(em, kinds, values, args[3:7], args[7:]))
            return context.get_dummy_value()

        index, real = types.int64, signals[0].dtype
        places = (index, index, index, index)
        return types.void(matrix, signals, extras, *places, real, real, real), codegen

    return tile


class _Row:
    """The arguments of one tile, unpacked."""

    def __init__(self, em, kinds, values, places, scalars):
        names = ["cols", "weights", "x", "z", "y", "sources", "source_coef", "targets", "target_coef"]
        for name, kind, value in zip(names, kinds, values, strict=True):
            setattr(self, name, em.data(kind, value))
        self.row, self.start, self.stop, self.channel = places
        self.scalars = scalars

        def shape(index):
            array = em.context.make_array(kinds[index])(em.context, em.b, values[index])
            return cgutils.unpack_tuple(em.b, array.shape, kinds[index].ndim)

        points, self.dims, self.channels = shape(2)
        self.size = em.b.mul(em.b.mul(points, self.dims), self.channels)
        self.num_sources, self.num_targets = shape(6)[0], shape(8)[0]


def _finish(em, total, row, r):
    """``y = alpha total + beta x + gamma z + sum_k b_k sources_k``, then ``targets_k += a_k y``, for one component.

    ``row`` numbers the components of all rows.
    """
    b = em.b
    where = b.add(b.mul(row, r.channels), r.channel)
    alpha, beta, gamma = (em.splat(s) for s in r.scalars)
    result = em.fma(alpha, total, b.fmul(beta, em.load(r.x, where)))
    result = em.fma(gamma, em.load(r.z, where), result)
    k, sums, blocks = em.loop(em.const(0), r.num_sources, [result])
    weight = em.splat(b.load(b.gep(r.source_coef, [k])))
    new = em.fma(weight, em.load(r.sources, b.add(b.mul(k, r.size), where)), sums[0])
    em.close(k, sums, [new], blocks)
    em.store(sums[0], r.y, where)
    k, _, blocks = em.loop(em.const(0), r.num_targets, [])
    weight = em.splat(b.load(b.gep(r.target_coef, [k])))
    place = b.add(b.mul(k, r.size), where)
    em.store(em.fma(weight, sums[0], em.load(r.targets, place)), r.targets, place)
    em.close(k, [], [], blocks)


def _emit_plane(em, r):
    """d = 2: each edge holds (w cos, w sin); a complemented column marks a reflection."""
    b = em.b
    index, sums, blocks = em.loop(r.start, r.stop, [em.zero(), em.zero()])
    code = b.load(b.gep(r.cols, [index]))
    reflected = b.icmp_signed("<", code, ir.Constant(code.type, 0))
    column = b.zext(b.select(reflected, b.not_(code), code), em.index)
    first = b.add(b.mul(b.mul(column, em.const(2)), r.channels), r.channel)
    pair = b.mul(index, em.const(2))
    c = b.load(b.gep(r.weights, [pair]))
    s = b.load(b.gep(r.weights, [b.add(pair, em.const(1))]))
    minus_s = b.select(reflected, s, b.fneg(s))
    other_c = b.select(reflected, b.fneg(c), c)
    x0, x1 = em.load(r.x, first), em.load(r.x, b.add(first, r.channels))
    y0 = em.fma(em.splat(minus_s), x1, em.fma(em.splat(c), x0, sums[0]))
    y1 = em.fma(em.splat(other_c), x1, em.fma(em.splat(s), x0, sums[1]))
    em.close(index, sums, [y0, y1], blocks)
    row = b.mul(r.row, em.const(2))
    _finish(em, sums[0], row, r)
    _finish(em, sums[1], b.add(row, em.const(1)), r)


def _emit_block(em, r):
    """Any d: one output component at a time, over edges and input components."""
    b = em.b
    p, _, outer = em.loop(em.const(0), r.dims, [])
    e, sums, edges = em.loop(r.start, r.stop, [em.zero()])
    column = b.zext(b.load(b.gep(r.cols, [e])), em.index)
    first = b.add(b.mul(b.mul(column, r.dims), r.channels), r.channel)
    weights = b.mul(b.add(b.mul(e, r.dims), p), r.dims)
    q, partial, inner = em.loop(em.const(0), r.dims, sums)
    weight = em.splat(b.load(b.gep(r.weights, [b.add(weights, q)])))
    new = em.fma(weight, em.load(r.x, b.add(first, b.mul(q, r.channels))), partial[0])
    em.close(q, partial, [new], inner)
    em.close(e, sums, partial, edges)
    _finish(em, sums[0], b.add(b.mul(r.row, r.dims), p), r)
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
        size, line = builder.mul(dims, channels), em.const(64 // em.align)
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        options = [ir.Constant(word, k) for k in (0, 3, 1)]  # for reading, into all levels, data
        index, _, blocks = em.loop(em.const(0), builder.add(builder.udiv(size, line), em.const(1)), [])
        offset = builder.add(builder.mul(args[1], size), builder.mul(index, line))
        builder.call(function, [builder.bitcast(builder.gep(array.data, [offset]), byte), *options])
        em.close(index, [], [], blocks)
        return context.get_dummy_value()

    return types.void(x, types.int64), codegen
