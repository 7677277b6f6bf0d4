// Arrays of a caller of `Recurrence`: f32, f16 or bf16, with the lengths of sequences on the
// device.
//
// Position i of (positions, width) is step i / rows of sequence i % rows. What stands after a
// sequence's end is never read, and written as zeros.
//
// Nothing is clamped to the range of f16: a value beyond it becomes infinite, so that gradients
// that depend on it are not finite either, rather than wrong.

// As `Format::word` in recurrence/format.rs.
static const u32 F32 = 0, F16 = 1, BF16 = 2;

__device__ __forceinline__ float load(const Values* values, u32 format, u64 at) {
    if (format == F32) return ((const float*)values)[at];
    const u16 bits = ((const u16*)values)[at];
    return format == F16 ? half_to_float(bits) : __int_as_float((u32)bits << 16);
}

// Rounds to nearest, ties to even.
__device__ __forceinline__ u16 bfloat(float x) {
    const u32 bits = __float_as_int(x);
    if ((bits & 0x7fffffff) > 0x7f800000) return (u16)(bits >> 16 | 0x40); // NaN stays NaN
    return (u16)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

__device__ __forceinline__ void store(Values* values, u32 format, u64 at, float x) {
    if (format == F32) ((float*)values)[at] = x;
    else ((u16*)values)[at] = format == F16 ? half(x) : bfloat(x);
}

// Whether a position lies before the end of its sequence; without lengths all do.
__device__ __forceinline__ bool runs(const u32* run, u32 position, u32 rows) {
    return !run || position / rows < run[position % rows];
}

__device__ __forceinline__ u32 thread_id() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Steps of a sequence. Lengths beyond the steps count as all steps, and negative ones as none: nothing
// else may be indexed by them.
__device__ __forceinline__ u32 steps_of(const BeginForward& p, u32 row) {
    long long length = p.steps;
    if (p.lengths32) length = (int)p.lengths32[row];
    if (p.lengths64) length = (long long)p.lengths64[row];
    return length < 0 ? 0 : length > p.steps ? p.steps : (u32)length;
}

// What a forward call needs before its products, in one launch: submitting takes the host longer than
// any of it takes the device.
extern "C" __global__ void begin_forward(const BeginForward p) {
    const u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < p.rows) p.run[at] = steps_of(p, at);
    if (at < p.biases) p.no_bias[at] = 0;
    if (at == 0 && p.parity) *p.parity = 0;
    for (u64 word = at; word < p.words; word += (u64)gridDim.x * blockDim.x)
        p.exchange[word] = make_uint4(~0u, ~0u, ~0u, ~0u); // EMPTY_SENTINEL
    if (at >= (u64)p.steps * p.rows * p.stride) return;
    const u32 position = at / p.stride, column = at % p.stride;
    float x = 0;
    if (column < p.width && position / p.rows < steps_of(p, position % p.rows))
        x = load(p.x, p.format, (u64)position * p.width + column);
    if (p.to) p.to[at] = x;
    else p.to_half[at] = half(x);
}

extern "C" __global__ void read_values(const ReadValues p) {
    const u32 at = thread_id();
    if (at >= p.positions * p.width) return;
    p.to[at] = runs(p.run, at / p.width, p.rows) ? load(p.from, p.format, at) : 0;
}

extern "C" __global__ void read_values_half(const ReadValuesHalf p) {
    const u32 at = thread_id();
    if (at >= p.positions * p.stride) return;
    const u32 position = at / p.stride, column = at % p.stride, unit = column % p.padded_below;
    const u32 from = column / p.padded_below * p.below + unit;
    float x = 0;
    if (unit < p.below && from < p.width && runs(p.run, position, p.rows)) {
        x = load(p.from, p.format, (u64)position * p.width + from);
        if (p.header) x /= p.header->weight;
    }
    p.to[at] = half(x);
}

extern "C" __global__ void write_values(const WriteValues p) {
    const u32 at = thread_id();
    if (at >= p.positions * p.width) return;
    const u32 position = at / p.width;
    float x = 0;
    if (runs(p.run, position, p.rows)) {
        x = p.from[(u64)position * p.stride + at % p.width];
        if (p.header) x *= p.header->weight;
    }
    store(p.to, p.format, at, x);
}

// What a caller of persistent kernels gets of H, all layers (S + 2, B, stride): outputs, last states.
extern "C" __global__ void end_forward_half(const EndForwardHalf p) {
    const u32 at = thread_id(), width = p.directions * p.n;
    if (p.y && at < p.steps * p.rows * width) {
        const u32 position = at / width, column = at % width;
        const u16* const h = p.h + p.layer_stride * (p.layers - 1);
        const u64 after = (u64)position + p.rows; // the first states come before
        const u16 own = h[after * p.stride + column / p.n * p.padded + column % p.n];
        store(p.y, p.format, at, runs(p.run, position, p.rows) ? half_to_float(own) : 0);
    }
    if (p.last && at < p.layers * width * p.rows) {
        const u32 unit = at % p.n, row = at / p.n % p.rows, lane = at / p.n / p.rows;
        const u32 layer = lane / p.directions, direction = lane % p.directions;
        // The last step of the reverse direction is the first one.
        const u64 index = direction > 0 ? 1 : p.run[row];
        const u16* const h = p.h + p.layer_stride * layer + direction * p.padded;
        p.last[at] = half_to_float(h[(index * p.rows + row) * p.stride + unit]);
    }
}

// ---- the scale of gradients in f16 (loss scaling)
//
// Gradients are divided by a power of two such that the largest that is given, of outputs and last
// states, lies in [1, 2). That is exact, and leaves a factor of 2^15 to the largest f16 and 2^24 to
// the smallest one, whatever loss the gradients come from.

// The largest of a block's values.
__device__ __forceinline__ u32 block_max(u32 value) {
    __shared__ u32 of_warps[32];
    value = __reduce_max_sync(~0u, value);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    __syncthreads();
    for (u32 warp = 0; warp < blockDim.x / 32; warp++)
        if (of_warps[warp] > value) value = of_warps[warp];
    return value;
}

// Bits of magnitudes are ordered as the magnitudes. What is not finite does not count: it needs no
// scale, and other gradients keep theirs.
__device__ __forceinline__ u32 larger(u32 found, float x) {
    const u32 bits = __float_as_int(x) & 0x7fffffff;
    return bits < 0x7f800000 && bits > found ? bits : found;
}

extern "C" __global__ void largest(const Largest p) {
    u32 found = 0;
    // 64 bits: a stride may lead beyond 32, and so may the states of many layers.
    const u64 first = thread_id(), stride = gridDim.x * blockDim.x;
    const u64 count = p.d_y ? (u64)p.positions * p.width : 0;
    for (u64 at = first; at < count; at += stride)
        if (runs(p.run, (u32)at / p.width, p.rows)) found = larger(found, load(p.d_y, p.format, at));
    for (u64 at = first; at < p.states; at += stride) {
        if (p.d_h) found = larger(found, p.d_h[at]);
        if (p.d_c) found = larger(found, p.d_c[at]);
    }
    found = block_max(found);
    if (threadIdx.x == 0) p.largest[blockIdx.x] = found;
}

// One block. Zeros need no scale; subnormal numbers have that of the smallest normal one.
extern "C" __global__ void set_scale(const SetScale p) {
    u32 found = 0;
    for (u32 at = threadIdx.x; at < p.count; at += blockDim.x)
        if (p.largest[at] > found) found = p.largest[at];
    found = block_max(found);
    if (threadIdx.x > 0) return;
    const u32 exponent = found >> 23;
    if (found == 0) p.header->weight = 1;
    else p.header->weight = __int_as_float((exponent == 0 ? 1 : exponent) << 23);
}
