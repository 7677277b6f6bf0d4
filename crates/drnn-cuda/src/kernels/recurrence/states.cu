// First and last states of recurrences whose sequences begin with given states.
//
// The forward direction of a row reads its first state at index 0 of H and C (S + 2, B, ..), and
// step s writes index s + 1. The reverse direction begins at the row's own end: it reads its first
// state at index run[row] + 1, and its last state is at index 1.

__device__ __forceinline__ u32 thread_id() { return blockIdx.x * blockDim.x + threadIdx.x; }

// Everything that no step writes: a thread per value of (S + 2, B, n). What is no state is zero,
// since products with zero gradients read it.
extern "C" __global__ void place_states(const PlaceStates p) {
    const u32 at = thread_id();
    if (at >= (p.steps + 2) * p.rows * p.n) return;
    const u32 unit = at % p.n, row = at / p.n % p.rows, index = at / p.n / p.rows;
    if (index > 0 && index <= p.run[row]) return;
    const bool first = p.reverse ? index > 0 : index == 0;
    p.to[((u64)index * p.rows + row) * p.stride + unit] =
        first && p.given ? p.given[row * p.n + unit] : 0;
}

// A thread per value of (B, n).
extern "C" __global__ void last_states(const LastStates p) {
    const u32 at = thread_id();
    if (at >= p.rows * p.n) return;
    const u64 index = p.reverse ? 1 : p.run[at / p.n];
    p.to[at] = p.from[(index * p.rows + at / p.n) * p.stride + at % p.n];
}

// For persistent kernels, which keep the first state of every row at both ends of H and C. A thread
// per (lane, row of the groups, unit with padding).
extern "C" __global__ void place_states_half(const PlaceStatesHalf p) {
    const u32 at = thread_id(), all_rows = p.groups * p.block_rows;
    if (at >= p.lanes * all_rows * p.padded) return;
    const u32 unit = at % p.padded, place = at / p.padded % all_rows;
    const u32 lane = at / p.padded / all_rows;
    const u32 row = p.first_row + place, group = place / p.block_rows;
    const bool real = row < p.rows && unit < p.n;
    const u64 from = ((u64)lane * p.rows + row) * p.n + unit;
    const u16 h = half(real && p.first_h ? p.first_h[from] : 0);
    const u64 image = (u64)(lane * p.groups + group) * p.padded + unit / 8 * 8;
    if (p.exchange) p.exchange[image * p.block_rows + place % p.block_rows * 8 + unit % 8] = h;
    if (row >= p.rows) return;
    const u64 end = (u64)(p.steps + 1) * p.rows;
    u16* const to_h = p.h + p.h_stride * lane + unit;
    to_h[(u64)row * p.width] = to_h[(end + row) * p.width] = h;
    if (!p.save) return;
    const u16 c = half(real && p.first_c ? p.first_c[from] : 0);
    u16* const to_c = p.c + p.c_stride * lane + unit;
    to_c[(u64)row * p.padded] = to_c[(end + row) * p.padded] = c;
}
