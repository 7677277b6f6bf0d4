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

// Lengths beyond the steps count as all steps, and negative ones as none: nothing else may be
// indexed by them.
extern "C" __global__ void count_steps(const CountSteps p) {
    const u32 row = thread_id();
    if (row >= p.rows) return;
    long long length = p.steps;
    if (p.lengths32) length = (int)p.lengths32[row];
    if (p.lengths64) length = (long long)p.lengths64[row];
    p.run[row] = length < 0 ? 0 : length > p.steps ? p.steps : (u32)length;
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

extern "C" __global__ void write_states_half(const WriteStatesHalf p) {
    const u32 at = thread_id();
    if (at >= p.positions * p.width) return;
    const u32 position = at / p.width, column = at % p.width;
    const u64 from = (u64)position * p.stride + column / p.n * p.padded + column % p.n;
    const bool running = runs(p.run, position, p.rows);
    store(p.to, p.format, at, running ? half_to_float(p.from[from]) : 0);
}

// ---- the scale of gradients in f16 (loss scaling)
//
// Gradients are divided by a power of two such that the largest that is given, of outputs and last
// states, lies in [1, 2). That is exact, and leaves a factor of 2^15 to the largest f16 and 2^24 to
// the smallest one, whatever loss the gradients come from.

// Bits of magnitudes are ordered as the magnitudes. What is not finite does not count: it needs no
// scale, and other gradients keep theirs. The maximum does not depend on the order in which threads
// arrive.
extern "C" __global__ void largest(const Largest p) {
    u32 found = 0;
    // 64 bits: a stride may lead beyond 32, and so may the states of many layers, which have no `run`.
    const u64 count = (u64)p.positions * p.width;
    for (u64 at = thread_id(); at < count; at += gridDim.x * blockDim.x) {
        if (!runs(p.run, (u32)at / p.width, p.rows)) continue;
        const u32 bits = __float_as_int(load(p.values, p.format, at)) & 0x7fffffff;
        if (bits < 0x7f800000 && bits > found) found = bits;
    }
    found = __reduce_max_sync(~0u, found);
    if (threadIdx.x % 32 == 0 && found > 0) atomicMax(p.largest, found);
}

// One thread. Zeros need no scale; subnormal numbers have that of the smallest normal one.
extern "C" __global__ void set_scale(const SetScale p) {
    const u32 exponent = *p.largest >> 23;
    if (*p.largest == 0) p.header->weight = 1;
    else p.header->weight = __int_as_float((exponent == 0 ? 1 : exponent) << 23);
}
