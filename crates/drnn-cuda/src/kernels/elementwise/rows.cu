// Where only some answers are asked for: the states that they are made of brought together, and what those are told brought back.
//
//   places[i]   row of H (S + 2, B, width) that answer i is made of; 0, a row of zeros, where it is made of none
//
// A thread per value of f32, or per 8 of f16, which `width` counts.

template <typename Values>
__device__ __forceinline__ void bring_together(const Values* h, const u32* places, Values* to, u32 count, u32 width) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count * width) to[at] = h[(u64)places[at / width] * width + at % width];
}

// To (S, B, width), which has no step of zeros before the first.
template <typename Values>
__device__ __forceinline__ void bring_back(const Values* from, const u32* places, Values* to, u32 rows, u32 count, u32 width) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count * width) return;
    u32 place = places[at / width];
    if (place) to[(u64)(place - rows) * width + at % width] = from[at];
}

extern "C" __global__ void gather(const float* h, const u32* places, float* to, u32 count, u32 width) {
    bring_together(h, places, to, count, width);
}

extern "C" __global__ void gather_half(const uint4* h, const u32* places, uint4* to, u32 count, u32 width) {
    bring_together(h, places, to, count, width);
}

extern "C" __global__ void scatter(const float* from, const u32* places, float* to, u32 rows, u32 count, u32 width) {
    bring_back(from, places, to, rows, count, width);
}

extern "C" __global__ void scatter_half(const uint4* from, const u32* places, uint4* to, u32 rows, u32 count, u32 width) {
    bring_back(from, places, to, rows, count, width);
}
