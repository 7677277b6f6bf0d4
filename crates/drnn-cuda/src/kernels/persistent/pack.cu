// Weights in the order in which persistent recurrences load them: the operands that a thread keeps
// in registers, then the tiles for shared memory, 16 bytes per thread.
//
// A slot is a row of a unit's weights; a unit has four. Byte k of `slots_ih` and `slots_hh` is the
// gate of W_ih, or of W_hh, in slot k; 0xff means none. Everything outside the n units is zero.

static const u32 NO_GATE = 0xff;
__device__ __forceinline__ u32 gate_of(u32 slots, u32 slot) { return slots >> 8 * slot & 0xff; }

// Slot at % 4 of unit at / 4 of the sums of biases, (N, 4).
template <class Params>
__device__ __forceinline__ void pack_bias_value(const Params& p, u32 at) {
    if (at >= p.padded * 4) return;
    const u32 unit = at / 4, gate_ih = gate_of(p.slots_ih, at % 4),
              gate_hh = gate_of(p.slots_hh, at % 4);
    float sum = 0;
    if (unit < p.n && gate_ih != NO_GATE) sum += p.b_ih[gate_ih * p.n + unit];
    if (unit < p.n && gate_hh != NO_GATE) sum += p.b_hh[gate_hh * p.n + unit];
    p.bias[at] = sum;
}

// For the forward kernel: to (N / units blocks, K_STEPS, 2 warpgroups, 128), bias (N, 4). Where the
// recurrence multiplies the h of the layer below too (`below` units in each of segments - 1
// directions), the k-steps of those segments come first. In blocks of 16 units both warpgroups have
// the same rows of weights, one has the even k-steps of each segment, the other the odd ones.
extern "C" __global__ void pack_forward(const PackForward p) {
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x, n = p.n, padded = p.padded;
    const u32 share = p.units == 16 ? 2 : 1;
    const u32 segment_k_steps = padded / 16 / share, k_steps = p.segments * segment_k_steps;
    pack_bias_value(p, at);
    if (at >= padded / p.units * k_steps * 256) return;
    const u32 thread = at % 128, warpgroup = at / 128 % 2, k_step = at / 256 % k_steps;
    const u32 block = at / 256 / k_steps, own_k_step = share == 2 ? warpgroup : 0;
    const u32 segment = k_step / segment_k_steps;
    const u32 first = (k_step % segment_k_steps * share + own_k_step) * 16;
    const bool own = segment + 1 == p.segments;
    const u32 slots = own ? p.slots_hh : p.slots_ih, columns = own ? n : p.below;
    const u32 stride = own ? n : (p.segments - 1) * p.below;
    const float* w = own ? p.w_hh : p.w_ih + segment * p.below;
    // Row `line` of the block's, column k. The 16 rows of a warp are 4 units, interleaved so
    // that a thread's accumulators are two slots of one unit, and its neighbour's the other two.
    auto weight = [&](u32 line, u32 k) -> float {
        u32 gate = gate_of(slots, (line & 1) * 2 + (line >> 3 & 1));
        u32 unit = block * p.units + (line >> 4) * 4 + (line >> 1 & 3);
        k += first;
        return gate != NO_GATE && unit < n && k < columns ? w[(u64)(gate * n + unit) * stride + k]
                                                          : 0;
    };
    u32 v[4];
    for (u32 i = 0; i < 4; i++) {
        // An A fragment of wgmma in registers, or 8 columns of a row of a shared-memory tile.
        u32 line = thread / 32 * 16 + thread % 32 / 4 + 8 * (i % 2),
            k = thread % 4 * 2 + 8 * (i / 2);
        if (k_step >= p.in_registers) line = thread % 64, k = thread / 64 * 8 + 2 * i;
        if (share == 1) line += 64 * warpgroup;
        v[i] = pack(weight(line, k), weight(line, k + 1));
    }
    p.to[at] = make_uint4(v[0], v[1], v[2], v[3]);
}

// For the backward kernel, transposed: to (N / units blocks, segments tiles, 2 warpgroups, units /
// 4, 128). A tile is 64 units whose dh the block computes a part of: units of its own layer first,
// then those of the layer below; a warpgroup has `tiles` of each.
extern "C" __global__ void pack_backward(const PackBackward p) {
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x, all = p.segments * p.tiles;
    const u32 k_steps = p.units / 4, of_tile = 2 * k_steps * 128;
    if (at >= p.padded / p.units * all * of_tile) return;
    const u32 thread = at % 128, k_step = at / 128 % k_steps, warpgroup = at / 128 / k_steps % 2;
    const u32 tile = at / of_tile % all, block = at / of_tile / all;
    const bool own = tile < p.tiles;
    const u32 n = p.n, slots = own ? p.slots_hh : p.slots_ih, columns = own ? n : p.below;
    const float* w = own ? p.w_hh : p.w_ih;
    // Row `line` of the tile, column k: slot k % 4 of the block's unit k / 4.
    auto weight = [&](u32 line, u32 k) -> float {
        u32 gate = gate_of(slots, k % 4), unit = block * p.units + k / 4;
        u32 column = (warpgroup * p.tiles + tile % p.tiles) * 64 + line;
        const bool real = gate != NO_GATE && unit < n && column < columns;
        return real ? w[(u64)(gate * n + unit) * columns + column] : 0;
    };
    u32 v[4];
    for (u32 i = 0; i < 4; i++) {
        u32 line = thread / 32 * 16 + thread % 32 / 4 + 8 * (i % 2);
        u32 k = k_step * 16 + thread % 4 * 2 + 8 * (i / 2);
        if (tile >= p.in_registers) line = thread % 64, k = (k_step * 2 + thread / 64) * 8 + 2 * i;
        v[i] = pack(weight(line, k), weight(line, k + 1));
    }
    p.to[at] = make_uint4(v[0], v[1], v[2], v[3]);
}

// For recurrences in one block (single_block.cuh), 16 bytes per thread, A fragments of `mma`: to
// `forward` (4 slots, N / 16 k-steps, 2 N threads), transposed to `backward` (N / 4, 2 N), and bias
// (N, 4). Each may be null. A warp has 16 units: 2g in row g of a fragment, 2g + 1 in row g + 8.
extern "C" __global__ void pack_single_block(const PackSingleBlock p) {
    const u32 at = blockIdx.x * blockDim.x + threadIdx.x, n = p.n, threads = 2 * p.padded;
    if (p.bias) pack_bias_value(p, at);
    if (at >= threads * (p.padded / 4)) return;
    const u32 thread = at % threads, g = thread % 32 / 4, q = thread % 4;
    const u32 k_step = at / threads, k_steps = p.padded / 16;
    auto weight = [&](u32 slot, u32 unit, u32 from) -> float {
        const u32 gate = gate_of(p.slots_hh, slot);
        return gate != NO_GATE && unit < n && from < n ? p.w_hh[(gate * n + unit) * n + from] : 0;
    };
    u32 forward[4], backward[4];
    for (u32 i = 0; i < 4; i++) {
        const u32 own = thread / 32 * 16 + 2 * g + i % 2, k = 2 * q + 8 * (i / 2);
        const u32 slot = k_step / k_steps, from = k_step % k_steps * 16 + k;
        forward[i] = pack(weight(slot, own, from), weight(slot, own, from + 1));
        // Column k of the backward pass: slot k % 4 of unit k / 4.
        const u32 column = k_step * 16 + k;
        backward[i] = pack(
            weight(column % 4, column / 4, own), weight(column % 4 + 1, column / 4, own));
    }
    if (p.forward) p.forward[at] = make_uint4(forward[0], forward[1], forward[2], forward[3]);
    if (p.backward) p.backward[at] = make_uint4(backward[0], backward[1], backward[2], backward[3]);
}

// For recurrences step by step, whose weights `pack_weights` converts.
extern "C" __global__ void pack_bias(const PackBias p) {
    pack_bias_value(p, blockIdx.x * blockDim.x + threadIdx.x);
}
