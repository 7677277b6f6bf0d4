// Batches that select some of the outputs: their states are gathered into consecutive rows, and the
// gradients of those rows are scattered back.
//
//   places[i]   row of H (S + 2, B, width) that output i is computed from; 0, a row of zeros,
//               if the position has no state
//
// A thread per f32, or per 8 f16 (a uint4): `width` is in those units.

template <typename Values>
__device__ __forceinline__ void gather_rows(
    const Values* h, const u32* places, Values* to, u32 count, u32 width) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count * width) to[at] = h[(u64)places[at / width] * width + at % width];
}

// To dH (S, B, width), which unlike H has no step of zeros before the first: `rows` fewer rows.
template <typename Values>
__device__ __forceinline__ void scatter_rows(
    const Values* from, const u32* places, Values* to, u32 rows, u32 count, u32 width) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count * width) return;
    u32 place = places[at / width];
    if (place) to[(u64)(place - rows) * width + at % width] = from[at];
}

extern "C" __global__ void gather(const Gather p) {
    gather_rows(p.h, p.places, p.to, p.count, p.width);
}

extern "C" __global__ void gather_half(const GatherHalf p) {
    gather_rows(p.h, p.places, p.to, p.count, p.width);
}

extern "C" __global__ void scatter(const Scatter p) {
    scatter_rows(p.from, p.places, p.to, p.rows, p.count, p.width);
}

extern "C" __global__ void scatter_half(const ScatterHalf p) {
    scatter_rows(p.from, p.places, p.to, p.rows, p.count, p.width);
}
