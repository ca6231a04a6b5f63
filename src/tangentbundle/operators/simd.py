"""Vector instructions for the CPU kernels, emitted through numba.

A plain numba loop over channels cannot keep its running sums in registers: the compiler must assume
that the output overlaps the input. Here the sums of one row and one tile of channels are explicit
LLVM vectors, carried through the loop over edges; LLVM lowers a vector to whatever the machine has
(AVX-512, AVX2, NEON).
"""

from __future__ import annotations

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

LEAD = 80
"""Edges of lead for prefetching the rows that they read."""


class _Emitter:
    """Loads, stores and arithmetic on ``width`` channels of C-contiguous arrays of one real
    type."""

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
        empty = ir.Constant(ir.VectorType(scalar.type, self.width), ir.Undefined)
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), self.width), [0] * self.width)
        return self.b.shuffle_vector(
            self.b.insert_element(empty, scalar, self.const(0)), empty, lanes
        )

    def fma(self, a, x, y):
        """a x + y, in one instruction where the machine has it."""
        product = self.b.fmul(a, x, flags=("contract",))
        return self.b.fadd(product, y, flags=("contract",))

    def flip(self, x, sign):
        """-x where an integer is negative, else x: two bit operations, negligible next to the
        sums."""
        bits = ir.IntType(8 * self.align)
        extended = sign
        if sign.type != bits:
            extended = self.b.sext(sign, bits)
        mask = self.splat(self.b.and_(extended, ir.Constant(bits, 1 << (bits.width - 1))))
        return self.b.bitcast(self.b.xor(self.b.bitcast(x, mask.type), mask), self.vector)

    def prefetch(self, pointer, offset):
        """Ask for the cache lines of ``width`` consecutive numbers."""
        byte = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
        function = cgutils.get_or_insert_function(self.b.module, kind, "llvm.prefetch.p0")
        options = [ir.Constant(word, k) for k in (0, 3, 1)]  # for reading, into all levels, data
        for k in range(0, self.width, 64 // self.align):
            place = self.b.gep(pointer, [self.b.add(offset, self.const(k))])
            self.b.call(function, [self.b.bitcast(place, byte), *options])

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
        """Close a loop, in a way that LLVM cannot count its turns: rows are short, and unrolling
        makes them slower."""
        head, done = blocks
        opaque = ir.FunctionType(self.index, [self.index])
        following = self.b.asm(opaque, "", "=r,0", [self.b.add(index, self.const(1))], False)
        index.add_incoming(following, self.b.block)
        for phi, value in zip(sums, new, strict=True):
            phi.add_incoming(value, self.b.block)
        self.b.branch(head)
        self.b.position_at_end(done)


def _tile(width):
    """An intrinsic for one row and ``width`` channels; see ``cpu.py`` for the arguments."""

    @intrinsic
    def tile(
        typingctx, matrix, signals, extras, row, later, start, stop, channel, alpha, beta, gamma
    ):
        def codegen(context, builder, signature, args):
            kinds = []
            values = []
            for kind, group in zip(signature.args[:3], args[:3], strict=True):
                kinds += list(kind)
                values += cgutils.unpack_tuple(builder, group, len(kind))
            em = _Emitter(context, builder, signals[0].dtype, width)
            emit = _emit_plane if kinds[1].ndim == 2 else _emit_block
            emit(em, _Row(em, kinds, values, args[3:8], args[8:]))
            return context.get_dummy_value()

        places = (types.int64,) * 5
        scalars = (signals[0].dtype,) * 3
        return types.void(matrix, signals, extras, *places, *scalars), codegen

    return tile


class _Row:
    """The arguments of one tile, unpacked."""

    def __init__(self, em, kinds, values, places, scalars):
        names = [
            "cols",
            "weights",
            "x",
            "z",
            "y",
            "sources",
            "source_coef",
            "targets",
            "target_coef",
        ]
        for name, kind, value in zip(names, kinds, values, strict=True):
            setattr(self, name, em.data(kind, value))
        self.row, self.later, self.start, self.stop, self.channel = places
        self.scalars = scalars

        def shape(index):
            array = em.context.make_array(kinds[index])(em.context, em.b, values[index])
            return cgutils.unpack_tuple(em.b, array.shape, kinds[index].ndim)

        points, self.dims, self.channels = shape(2)
        self.size = em.b.mul(em.b.mul(points, self.dims), self.channels)
        self.num_sources = shape(6)[0]
        self.num_targets = shape(8)[0]
        self.last_edge = em.b.sub(shape(0)[0], em.const(1))


def _gathered(em, r, edge):
    """The column of an edge as it is stored, and where its component 0 begins in a signal."""
    code = em.b.load(em.b.gep(r.cols, [edge]))
    sign = em.b.ashr(code, ir.Constant(code.type, code.type.width - 1))
    column = em.b.zext(em.b.xor(code, sign), em.index)
    return code, em.b.add(em.b.mul(em.b.mul(column, r.dims), r.channels), r.channel)


def _prefetch_gathered(em, r, edge, component):
    """Ask for what a later edge will read: signals in another order than the curve's are read at
    random."""
    later = em.b.add(edge, em.const(LEAD))
    later = em.b.select(em.b.icmp_signed("<", later, r.last_edge), later, r.last_edge)
    _, first = _gathered(em, r, later)
    em.prefetch(r.x, em.b.add(first, em.b.mul(component, r.channels)))


def _finish(em, total, component, r):
    """``y = alpha total + beta x + gamma z + sum_k b_k sources_k``, then ``targets_k += a_k y``,
    for one component."""
    b = em.b

    def place(row):
        return b.add(b.mul(b.add(b.mul(row, r.dims), component), r.channels), r.channel)

    em.prefetch(r.y, place(r.later))
    where = place(r.row)
    alpha = em.splat(r.scalars[0])
    beta = em.splat(r.scalars[1])
    gamma = em.splat(r.scalars[2])
    result = em.fma(alpha, total, b.fmul(beta, em.load(r.x, where)))
    result = em.fma(gamma, em.load(r.z, where), result)
    k, sums, blocks = em.loop(em.const(0), r.num_sources, [result])
    weight = em.splat(b.load(b.gep(r.source_coef, [k])))
    new = em.fma(weight, em.load(r.sources, b.add(b.mul(k, r.size), where)), sums[0])
    em.close(k, sums, [new], blocks)
    em.store(sums[0], r.y, where)
    k, _, blocks = em.loop(em.const(0), r.num_targets, [])
    weight = em.splat(b.load(b.gep(r.target_coef, [k])))
    target = b.add(b.mul(k, r.size), where)
    em.store(em.fma(weight, sums[0], em.load(r.targets, target)), r.targets, target)
    em.close(k, [], [], blocks)


def _emit_plane(em, r):
    """d = 2: each edge holds (w cos, w sin); a complemented column marks a reflection, which first
    flips x1."""
    b = em.b
    index, sums, blocks = em.loop(r.start, r.stop, [em.zero()] * 4)
    for component in range(2):
        _prefetch_gathered(em, r, index, em.const(component))
    code, first = _gathered(em, r, index)
    pair = b.mul(index, em.const(2))
    c = em.splat(b.load(b.gep(r.weights, [pair])))
    s = em.splat(b.load(b.gep(r.weights, [b.add(pair, em.const(1))])))
    x0 = em.load(r.x, first)
    x1 = em.flip(em.load(r.x, b.add(first, r.channels)), code)
    terms = [
        (c, x0),
        (s, x1),
        (s, x0),
        (c, x1),
    ]  # four sums: one would have to wait for the other in two
    em.close(
        index,
        sums,
        [em.fma(w, x, total) for (w, x), total in zip(terms, sums, strict=True)],
        blocks,
    )
    sums = [b.fsub(sums[0], sums[1]), b.fadd(sums[2], sums[3])]
    for component in range(2):
        _finish(em, sums[component], em.const(component), r)


def _emit_block(em, r):
    """Any d: one output component at a time, over edges and input components."""
    b = em.b
    p, _, outer = em.loop(em.const(0), r.dims, [])
    e, sums, edges = em.loop(r.start, r.stop, [em.zero()])
    _prefetch_gathered(em, r, e, p)
    _, first = _gathered(em, r, e)
    weights = b.mul(b.add(b.mul(e, r.dims), p), r.dims)
    q, partial, inner = em.loop(em.const(0), r.dims, sums)
    weight = em.splat(b.load(b.gep(r.weights, [b.add(weights, q)])))
    new = em.fma(weight, em.load(r.x, b.add(first, b.mul(q, r.channels))), partial[0])
    em.close(q, partial, [new], inner)
    em.close(e, sums, partial, edges)
    _finish(em, sums[0], p, r)
    em.close(p, [], [], outer)


tile_32, tile_16, tile_8, tile_4, tile_1 = map(_tile, (32, 16, 8, 4, 1))
