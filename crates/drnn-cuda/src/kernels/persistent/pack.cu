// Weights as persistent recurrences read them: what a thread keeps in registers, then tiles for shared memory, 16 bytes a thread.
//
// A slot is a row of a unit's weights, four to a unit. `slots` says whose they are: byte k is the gate that slot k has of W_ih, or of
// W_hh, 0xff none. Everything outside n units is zero.

static const u32 NO_GATE = 0xff;
__device__ __forceinline__ u32 gate_of(u32 slots, u32 slot) { return slots >> 8 * slot & 0xff; }

// For the way forward: to (N / 32 blocks, DEPTH, 2 warpgroups, 128), bias (N, 4). Products with what the layer below gives, where it
// is multiplied along (`below` units in each of segments - 1 directions), come before those with h.
extern "C" __global__ void pack_forward(
    const float* w_ih, const float* w_hh, const float* b_ih, const float* b_hh, uint4* to, float* bias, u32 slots_ih, u32 slots_hh,
    u32 n, u32 below, u32 padded, u32 segments, u32 in_registers) {
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x, depth_of_one = padded / 16, depths = segments * depth_of_one;
    if (at < padded * 4) {
        u32 unit = at / 4, of_ih = gate_of(slots_ih, at % 4), of_hh = gate_of(slots_hh, at % 4);
        float sum = 0;
        if (unit < n && of_ih != NO_GATE) sum += b_ih[of_ih * n + unit];
        if (unit < n && of_hh != NO_GATE) sum += b_hh[of_hh * n + unit];
        bias[at] = sum;
    }
    if (at >= padded / 32 * depths * 256) return;
    const u32 thread = at % 128, warpgroup = at / 128 % 2, depth = at / 256 % depths, block = at / 256 / depths;
    const u32 segment = depth / depth_of_one, first = depth % depth_of_one * 16;
    const bool own = segment + 1 == segments;
    const u32 slots = own ? slots_hh : slots_ih, most = own ? n : below, stride = own ? n : (segments - 1) * below;
    const float* w = own ? w_hh : w_ih + segment * below;
    // Line `line` of the 128 of a block, column k. A warp's 16 lines are 4 units: what a thread gets of a product are two slots of
    // one unit, and its neighbour has the other two.
    auto weight = [&](u32 line, u32 k) -> float {
        u32 gate = gate_of(slots, (line & 1) * 2 + (line >> 3 & 1)), unit = block * 32 + (line >> 4) * 4 + (line >> 1 & 3);
        k += first;
        return gate != NO_GATE && unit < n && k < most ? w[(u64)(gate * n + unit) * stride + k] : 0;
    };
    u32 v[4];
    for (u32 i = 0; i < 4; i++) {
        // Registers as products want them, or 8 columns of a line.
        u32 line = thread / 32 * 16 + thread % 32 / 4 + 8 * (i % 2), k = thread % 4 * 2 + 8 * (i / 2);
        if (depth >= in_registers) line = thread % 64, k = thread / 64 * 8 + 2 * i;
        line += 64 * warpgroup;
        v[i] = pack(weight(line, k), weight(line, k + 1));
    }
    to[at] = make_uint4(v[0], v[1], v[2], v[3]);
}

// For the way back, transposed: to (N / 32 blocks, segments tiles, 2 warpgroups, 8, 128). Tiles of 64 units that gradients go to, own
// ones, then those of the layer below; `tiles` of them to a warpgroup, of each kind.
extern "C" __global__ void pack_backward(
    const float* w_ih, const float* w_hh, uint4* to, u32 slots_ih, u32 slots_hh, u32 n, u32 below, u32 padded, u32 segments, u32 tiles,
    u32 in_registers) {
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x, all = segments * tiles;
    if (at >= padded / 32 * all * 2048) return;
    const u32 thread = at % 128, depth = at / 128 % 8, warpgroup = at / 1024 % 2, tile = at / 2048 % all, block = at / 2048 / all;
    const bool own = tile < tiles;
    const u32 slots = own ? slots_hh : slots_ih, columns = own ? n : below;
    // Line `line` of the tile, column k: slot k % 4 of the block's unit k / 4
    auto weight = [&](u32 line, u32 k) -> float {
        u32 gate = gate_of(slots, k % 4), unit = block * 32 + k / 4, column = (warpgroup * tiles + tile % tiles) * 64 + line;
        return gate != NO_GATE && unit < n && column < columns ? (own ? w_hh : w_ih)[(u64)(gate * n + unit) * columns + column] : 0;
    };
    u32 v[4];
    for (u32 i = 0; i < 4; i++) {
        u32 line = thread / 32 * 16 + thread % 32 / 4 + 8 * (i % 2), k = depth * 16 + thread % 4 * 2 + 8 * (i / 2);
        if (tile >= in_registers) line = thread % 64, k = (depth * 2 + thread / 64) * 8 + 2 * i;
        v[i] = pack(weight(line, k), weight(line, k + 1));
    }
    to[at] = make_uint4(v[0], v[1], v[2], v[3]);
}
