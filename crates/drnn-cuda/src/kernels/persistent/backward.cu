// Backward pass of a recurrence that is too large for one multiprocessor: all steps in one launch.
//
//   dh_s = gradient from above + dslots_{s+1} W_hh        dslots from dh, slot by slot: cell.cuh
//
// Blocks own UNITS units, rows and lanes as in the forward pass. A block has 4 UNITS columns of
// dslots, its own units', and multiplies them by its rows of W_hh, which gives a part of dh of every
// unit. It sends each owner its part, in f16; owners add the parts up in a fixed order. If STACKED,
// it multiplies dslots by its rows of W_ih too and sends the results to the layer below: a wavefront
// from the top.
//
// Where a block has fewer groups of four cells than threads, HELPERS = 2 or 4 threads share one:
// each adds up the parts of its share of the senders, then they exchange these sums through shared
// memory and each computes 4 / HELPERS of the cells.
//
// Parts travel through mailboxes in device memory, without flags: the lowest bit of every 32-bit
// word is the phase in which it was written, so that each word shows by itself whether it has
// arrived. Mailboxes are ring buffers: 2 slots for a layer's own parts, RING for those from the
// layer above. They start as zeros, and the first phase's bit is 1. A slot for own parts is reused
// only after its reader has sent what it computed from it: the writer has waited for exactly that.
// The layer below sends nothing back, so it publishes in `read_counts` how many steps it has added
// up, and a layer that is RING steps ahead waits.
//
//   packed (lanes, BLOCKS, ALL_TILES, 2, K_STEPS, 128) 16 bytes each: as `pack_backward` orders
//   gates (S, B, N, 4) f16: what forward saved, replaced by the slots' gradients
//   c (S + 2, B, N) f16
//   d_above (S, B, width) f16: gradient of h from above; of both directions, or of the top layer
//   dh_partials (2 + RING, lanes groups, BLOCKS owners, BLOCKS senders, NB / 8, PLACES, 4) f16
//   read_counts (lanes groups, BLOCKS)
//   d_bias (lanes groups, N, 4) f32: sums over steps and rows
//
// gates and c of lane l begin l times gates_stride and c_stride values further. Gradients are
// already scaled in d_above (loss scaling), so that the division by the number of positions does
// not make them underflow in f16.
//
// With FROM_STATES, sequences begin with given states: the gradient of a row's last state enters at
// its last step, that of its first state leaves after its first one, and gradients of c wait where
// the row does not run. Nothing is clamped to the range of f16: values beyond it become infinite.
//
// t counts steps in the order of the backward pass; s is the time step.

#ifndef FROM_STATES
#define FROM_STATES 0
#endif
#if FROM_STATES
#define LIMITED(x) (x)
#else
#define LIMITED(x) clamp_to_half(x)
#endif

static const u32 BLOCKS = N / UNITS;
static const u32 K_STEPS = UNITS / 4; // wgmma k-steps: 16 columns of dslots each
static const u32 COLUMNS = NB / 8;
static const u32 TILES = ((N + 63) / 64 + 1) / 2; // of 64 units of dh, per warpgroup, at most
static const u32 SEGMENTS = STACKED ? 2 : 1;      // own units, and those of the layer below
static const u32 ALL_TILES = SEGMENTS * TILES;
static const u32 IN_REGISTERS = ALL_TILES < REGISTER_TILES ? ALL_TILES : REGISTER_TILES;
static const u32 IN_SHARED = ALL_TILES - IN_REGISTERS;
static const u32 THREADS = 256;
static const u32 PLACES = 2 * UNITS;        // groups of four cells, in 8 rows of the batch
static const u32 GROUPS = PLACES * COLUMNS; // groups of four cells of a block
static const u32 CELLS = (GROUPS + THREADS - 1) / THREADS; // groups of a thread
static const u32 EACH = 4 / HELPERS;                       // cells of a group that it computes
static const u32 PART = GROUPS * 4; // f16 that one block sends another per step
static const u32 OWN_RING = 2;
static const u32 SENDERS = (BLOCKS + HELPERS - 1) / HELPERS; // of each helper, at most
static const u32 TILE_WORDS = 2 * K_STEPS * 128; // 16-byte words of a tile's weights

struct Shared {
    // By warpgroup: (4 UNITS, 64); + 1: arrays must not be empty.
    u16 weights[IN_SHARED + 1][2][64 * 4 * UNITS];
    union {
        u16 d_slots[2][4 * UNITS * NB]; // double buffer: 4 slots of unit 0, of unit 1, ..
        float d_bias[HELPERS == 4 ? NB : NB / 2][UNITS][4];
    };
#if HELPERS > 1
    float4 sums[HELPERS][GROUPS]; // of each helper's senders
#endif
};
static_assert(sizeof(Shared) == SHARED, "must equal the size in persistent/tiling.rs");
static_assert(HELPERS == 1 || HELPERS * GROUPS == THREADS, "every thread helps once");

// The phase bit of step t in a ring of that many slots.
__device__ __forceinline__ u32 phase_bit(u32 t, u32 ring) { return (t / ring + 1) & 1; }

// Multiplies `count` tiles of weights by dslots and sends owners their parts. While one tile is
// multiplied, the one before it is sent.
template <u32 count>
__device__ __forceinline__ void multiply_and_send(
    const u32 (&w)[IN_REGISTERS][K_STEPS][4], u64 weights_at, u64 d_at, u16* to_own, u16* to_below,
    u32 t) {
    const u32 warp = threadIdx.x / 32, warpgroup = warp / 4;
    float sum[2][SUMS];
#pragma unroll
    for (u32 tile = 0; tile <= count; tile++) {
        if (tile < count) {
            wgmma_fence_operand(sum[tile % 2]);
            wgmma_fence();
#pragma unroll
            for (u32 k_step = 0; k_step < K_STEPS; k_step++) {
                u64 b = with_low_word(d_at, (u32)d_at + k_step * 2 * NB);
                if (tile < IN_REGISTERS) wgmma(sum[tile % 2], w[tile][k_step], b, k_step > 0);
                else {
                    u32 at = (u32)weights_at + (tile - IN_REGISTERS) * TILE_WORDS + k_step * 128;
                    wgmma(sum[tile % 2], with_low_word(weights_at, at), b, k_step > 0);
                }
            }
            wgmma_commit();
        }
        if (tile == 0) continue;
        if (tile < count) wgmma_wait<1>();
        else wgmma_wait<0>();
        float (&d)[SUMS] = sum[(tile - 1) % 2];
        wgmma_fence_operand(d);
        const bool below = tile - 1 >= TILES;
        const u32 bit = phase_bit(t, below ? RING : OWN_RING);
        const u32 tile_of_all = warpgroup * TILES + (tile - 1) % TILES;
        const u32 owner = tile_of_all * (64 / UNITS) + warp % 4 / (UNITS / 16);
        if (owner >= BLOCKS) continue;
#pragma unroll
        for (u32 j = 0; j < COLUMNS; j++) {
            uint2 v = make_uint2(
                pack(LIMITED(d[4 * j]), LIMITED(d[4 * j + 1])),
                pack(LIMITED(d[4 * j + 2]), LIMITED(d[4 * j + 3])));
            v.x = v.x & ~1u | bit, v.y = v.y & ~1u | bit;
            st_relaxed_v2((below ? to_below : to_own) + (u64)owner * BLOCKS * PART + j * PLACES * 4, v);
        }
    }
}

// The parts that the senders of a thread send for its group of four cells.
struct Inbox {
    const u16* at;
    u32 bit;
    bool expected; // otherwise there are none
};

// Waits for the parts of `senders` blocks and adds them up. BATCH loads are in flight at once, since
// each is a round trip to L2.
__device__ __forceinline__ void gather_parts(
    float (&d_h)[4], const Inbox (&inbox)[SEGMENTS], u32 senders) {
#pragma unroll 1
    for (u32 first = 0; first < SENDERS; first += BATCH) {
        uint2 v[SEGMENTS][BATCH];
        auto load = [&](u32 from, u32 i) {
            return ld_relaxed_v2(inbox[from].at + (u64)(first + i) * PART);
        };
#pragma unroll
        for (u32 from = 0; from < SEGMENTS; from++)
#pragma unroll
            for (u32 i = 0; i < BATCH; i++) {
                v[from][i] = make_uint2(inbox[from].bit, inbox[from].bit);
                if (first + i < senders && inbox[from].expected) v[from][i] = load(from, i);
            }
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (u32 from = 0; from < SEGMENTS; from++)
#pragma unroll
                for (u32 i = 0; i < BATCH; i++) {
                    const u32 bit = inbox[from].bit;
                    if (((v[from][i].x ^ bit) | (v[from][i].y ^ bit)) & 1)
                        v[from][i] = load(from, i), missing = true;
                }
        } while (missing);
#pragma unroll
        for (u32 from = 0; from < SEGMENTS; from++)
#pragma unroll
            for (u32 i = 0; i < BATCH; i++) {
                if (first + i >= senders || !inbox[from].expected) continue;
                const uint2 two = v[from][i];
                d_h[0] += low(two.x), d_h[1] += high(two.x), d_h[2] += low(two.y),
                    d_h[3] += high(two.y);
            }
    }
}

#if HELPERS > 1
// Adds up the sums of all helpers of a group, in their order. Returns the cells of the calling one.
__device__ __forceinline__ void add_helpers(Shared& shared, float (&d_h)[4], u32 helper) {
    const u32 group = threadIdx.x % GROUPS;
    shared.sums[helper][group] = make_float4(d_h[0], d_h[1], d_h[2], d_h[3]);
    __syncthreads();
#pragma unroll
    for (u32 e = 0; e < EACH; e++) {
        d_h[e] = 0;
#pragma unroll
        for (u32 from = 0; from < HELPERS; from++)
            d_h[e] += ((const float*)&shared.sums[from][group])[helper * EACH + e];
    }
}
#else
__device__ __forceinline__ void add_helpers(Shared&, float (&)[4], u32) {}
#endif

#if FROM_STATES
extern "C" __global__ void __launch_bounds__(THREADS, 1)
persistent_backward_from_states(const __grid_constant__ PersistentBackwardFromStates p)
#else
extern "C" __global__ void __launch_bounds__(THREADS, 1)
persistent_backward(const __grid_constant__ PersistentBackward p)
#endif
{
    Shared& shared = *(Shared*)dynamic_shared();
    const u32 lanes = p.lanes, groups = p.groups, steps = p.steps, rows = p.rows, width = p.width;
    u16* const dh_partials = p.dh_partials;
    u32* const read_counts = p.read_counts;
    const u32 block = blockIdx.x % BLOCKS, group = blockIdx.x / BLOCKS % groups;
    const u32 lane_id = blockIdx.x / BLOCKS / groups; // of the recurrence
    const u32 warp = threadIdx.x / 32, warp_lane = threadIdx.x % 32, warpgroup = warp / 4;
    const u32 row0 = p.first_row + group * NB; // first row of the batch
    const bool reverse = !STACKED && lane_id > 0;
    const bool sends_below = STACKED && lane_id > 0,
               receives_above = STACKED && lane_id + 1 < lanes;
    const uint4* const packed = p.packed + ((u64)lane_id * BLOCKS + block) * ALL_TILES * TILE_WORDS;
    auto step = [&](u32 t) { return reverse ? t : steps - 1 - t; };

    for (u32 i = threadIdx.x; i < IN_SHARED * TILE_WORDS; i += THREADS) {
        ((uint4*)shared.weights)[i] = packed[IN_REGISTERS * TILE_WORDS + i];
    }
    u32 w[IN_REGISTERS][K_STEPS][4];
#pragma unroll
    for (u32 tile = 0; tile < IN_REGISTERS; tile++)
#pragma unroll
        for (u32 k_step = 0; k_step < K_STEPS; k_step++) {
            uint4 v = packed[((tile * 2 + warpgroup) * K_STEPS + k_step) * 128 + threadIdx.x % 128];
            w[tile][k_step][0] = v.x, w[tile][k_step][1] = v.y;
            w[tile][k_step][2] = v.z, w[tile][k_step][3] = v.w;
        }

    // A thread's cells follow the accumulator layout of the products that compute the parts: a place
    // of a part, rows 8j of the batch. Each four are units u and u + 8 of the block's, rows b and
    // b + 1. With HELPERS it has some of them.
    const u32 helper = HELPERS > 1 ? threadIdx.x / GROUPS : 0;
    float d_state[CELLS][EACH], c_now[CELLS][EACH], bias[CELLS][8];
    u32 row_length[CELLS][2], unit[CELLS], row[CELLS];
    bool active[CELLS];
#pragma unroll
    for (u32 a = 0; a < CELLS; a++) {
        u32 item = (HELPERS > 1 ? threadIdx.x % GROUPS : threadIdx.x + a * THREADS);
        u32 place = item % PLACES, j = item / PLACES;
        active[a] = item < GROUPS;
        unit[a] = place / 32 * 16 + place % 32 / 4 + helper * EACH / 2 * 8;
        row[a] = row0 + 8 * j + 2 * (place % 4) + helper * EACH % 2;
#pragma unroll
        for (u32 e = 0; e < 2; e++) {
            row_length[a][e] = active[a] && row[a] + e < rows ? p.run[row[a] + e] : 0;
        }
#pragma unroll
        for (u32 e = 0; e < EACH; e++) d_state[a][e] = 0;
#pragma unroll
        for (u32 e = 0; e < 8; e++) bias[a][e] = 0;
    }
    u16* const gates = p.gates + p.gates_stride * lane_id + block * UNITS * 4;
    const u16* const c = p.c + p.c_stride * lane_id + block * UNITS;
    const u16* const d_above = p.d_above + ((STACKED ? 0 : lane_id * N) + block * UNITS);
    // Cell e of four: unit + 8 (e / 2), row + e % 2.
    auto c_at = [&](u32 at, u32 a, u32 e) {
        return half_to_float(c[((u64)at * rows + row[a] + e % 2) * N + unit[a] + 8 * (e / 2)]);
    };
#pragma unroll
    for (u32 a = 0; a < CELLS; a++)
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            c_now[a][e] = row_length[a][e % 2] ? c_at(step(0) + 1, a, e) : 0;

#if FROM_STATES
    const float scale = p.header->weight;
    // A cell of the n units and B rows, and its place in arrays of the caller's.
    auto is_real = [&](u32 a, u32 e) {
        return active[a] && row[a] + e % 2 < rows && block * UNITS + unit[a] + 8 * (e / 2) < p.n;
    };
    auto state_at = [&](u32 a, u32 e) {
        const u64 in_lane = (u64)(row[a] + e % 2) * p.n + block * UNITS + unit[a] + 8 * (e / 2);
        return (u64)lane_id * rows * p.n + in_lane;
    };
    // What arrives at the first state: d_h from the products of the step after it, and what the
    // cell passes on directly.
    auto first_h = [&](u32 a, u32 e, float d_h) {
        return scale * (CELL == GRU ? d_h + d_state[a][e] : d_h);
    };
#pragma unroll
    for (u32 a = 0; a < CELLS; a++)
#pragma unroll
        for (u32 e = 0; e < EACH; e++)
            if (CELL == LSTM && p.d_last_c && is_real(a, e))
                d_state[a][e] = p.d_last_c[state_at(a, e)] / scale;
#endif

    // Prefetched to registers for the next step, while this one's products run: saved slots, the c
    // before it, and the gradient from above.
    uint2 saved[CELLS][EACH];
    u16 c_ahead[CELLS][EACH], above[CELLS][EACH];
    auto prefetch = [&](u32 t) {
        const u32 s = step(t);
#pragma unroll
        for (u32 a = 0; a < CELLS; a++)
#pragma unroll
            for (u32 e = 0; e < EACH; e++) {
                if (!row_length[a][e % 2]) continue;
                u64 position = (u64)s * rows + row[a] + e % 2;
                u32 own = unit[a] + 8 * (e / 2);
                saved[a][e] = *(const uint2*)(gates + (position * N + own) * 4);
                c_ahead[a][e] = c[((u64)(reverse ? s + 2 : s) * rows + row[a] + e % 2) * N + own];
                if (!receives_above) above[a][e] = d_above[position * width + own];
            }
    };
#pragma unroll
    for (u32 a = 0; a < CELLS; a++)
#pragma unroll
        for (u32 e = 0; e < EACH; e++) saved[a][e] = make_uint2(0, 0), c_ahead[a][e] = above[a][e] = 0;
    prefetch(0);

    // f16 of a group's parts, and of one slot of the ring: all groups of all lanes.
    const u64 group_parts = (u64)BLOCKS * BLOCKS * PART,
              ring_stride = (u64)lanes * groups * group_parts;
    const u64 weights_at = matrix_descriptor(shared_address(shared.weights[0][warpgroup]), 64);
    const u64 d_at = matrix_descriptor(shared_address(shared.d_slots), NB);
    // Where the parts for owner 0 are: those of this layer, and those that `layer` sends down.
    auto own_parts = [&](u32 t) {
        return dh_partials + t % OWN_RING * ring_stride +
               (u64)(lane_id * groups + group) * group_parts;
    };
    auto parts_from = [&](u32 layer, u32 t) {
        return dh_partials + (OWN_RING + t % RING) * ring_stride +
               (u64)(layer * groups + group) * group_parts;
    };
    // Its share of the senders, and where the first one's part for its cells is.
    const u32 first_sender = helper * SENDERS;
    const u32 senders = HELPERS > 1 ? min(SENDERS, BLOCKS - min(BLOCKS, first_sender)) : BLOCKS;
    auto first_part = [&](u32 a) {
        if (HELPERS == 1) return (u64)block * BLOCKS * PART + (threadIdx.x + a * THREADS) * 4;
        return ((u64)block * BLOCKS + first_sender) * PART + threadIdx.x % GROUPS * 4;
    };
    fence_proxy_async();
    __syncthreads();

    for (u32 t = 0; t < steps; t++) {
        const u32 s = step(t);
#pragma unroll
        for (u32 a = 0; a < CELLS; a++) {
            if (!active[a]) continue;
            float d_h[4] = {0, 0, 0, 0};
            const u64 mine = first_part(a);
            Inbox inbox[SEGMENTS];
            inbox[0] = {own_parts(t - 1) + mine, phase_bit(t - 1, OWN_RING), t > 0};
            if (STACKED) {
                inbox[SEGMENTS - 1] = {
                    parts_from(lane_id + 1, t) + mine, phase_bit(t, RING), receives_above};
            }
            gather_parts(d_h, inbox, senders);
            add_helpers(shared, d_h, helper);
#pragma unroll
            for (u32 e = 0; e < EACH; e++) {
                float d[4] = {
                    low(saved[a][e].x), high(saved[a][e].x), low(saved[a][e].y),
                    high(saved[a][e].y)};
                bool running = s < row_length[a][e % 2];
#if FROM_STATES
                const u32 length = row_length[a][e % 2];
                const float held = d_state[a][e];
                if (length > 0 && is_real(a, e)) {
                    if (p.d_last_h && s == (reverse ? 0 : length - 1))
                        d_h[e] += p.d_last_h[state_at(a, e)] / scale;
                    if (p.d_first_h && reverse && s == length)
                        p.d_first_h[state_at(a, e)] = first_h(a, e, d_h[e]);
                }
#endif
                float before = half_to_float(c_ahead[a][e]);
                cell_backward(
                    d, d_h[e] + half_to_float(above[a][e]), d_state[a][e], c_now[a][e], before);
#if FROM_STATES
                if (!running) d_state[a][e] = held;
#else
                if (!running) d_state[a][e] = 0;
#endif
                c_now[a][e] = before; // after a sequence's end too: the next step may be inside it
#pragma unroll
                for (u32 k = 0; k < 4; k++) {
                    d[k] = running ? LIMITED(d[k]) : 0;
                    bias[a][4 * (e / 2) + k] += d[k];
                }
                uint2 packed_d = make_uint2(pack(d[0], d[1]), pack(d[2], d[3]));
                u32 own = unit[a] + 8 * (e / 2), b = row[a] + e % 2 - row0;
                *(uint2*)(shared.d_slots[t & 1] + (own / 2 * NB + b) * 8 + own % 2 * 4) = packed_d;
                if (row[a] + e % 2 < rows) {
                    *(uint2*)(gates + (((u64)s * rows + row[a] + e % 2) * N + own) * 4) = packed_d;
                }
            }
        }
        if (!FROM_STATES && t + 1 == steps && !sends_below) break;
        if (t + 1 < steps) prefetch(t + 1);
        const u32 below = BLOCKS <= 32 ? warp_lane : threadIdx.x;
        if (sends_below && t >= RING && (warp == 0 || BLOCKS > 32) && below < BLOCKS) {
            const u32* reader = read_counts + ((lane_id - 1) * groups + group) * BLOCKS + below;
            while (ld_acquire(reader) + RING <= t) {
            }
        }
        fence_proxy_async_shared();
        // All dslots are written, and those of the step before and the parts have been read.
        __syncthreads();
        if (receives_above && threadIdx.x == 0) {
            st_release(read_counts + (lane_id * groups + group) * BLOCKS + block, t + 1);
        }
        const u64 sender = (u64)block * PART + ((UNITS == 32 ? warp & 1 : 0) * 32 + warp_lane) * 4;
        u16* const to_own = own_parts(t) + sender;
        u16* const to_below = parts_from(lane_id, t) + sender;
        u32 weights_low = (u32)weights_at, d_low = (u32)d_at + (t & 1) * (4 * UNITS * NB * 2 / 16);
        opaque(weights_low), opaque(d_low);
        const u64 weights_now = with_low_word(weights_at, weights_low),
                  d_now = with_low_word(d_at, d_low);
        if (sends_below) multiply_and_send<ALL_TILES>(w, weights_now, d_now, to_own, to_below, t);
        else multiply_and_send<TILES>(w, weights_now, d_now, to_own, to_below, t);
    }

#if FROM_STATES
    // One more exchange: what the first step of every row sends.
#pragma unroll
    for (u32 a = 0; a < CELLS; a++) {
        if (!active[a]) continue;
        float d_h[4] = {0, 0, 0, 0};
        Inbox inbox[SEGMENTS];
        inbox[0] = {
            own_parts(steps - 1) + first_part(a), phase_bit(steps - 1, OWN_RING), true};
        if (STACKED) inbox[SEGMENTS - 1] = {inbox[0].at, inbox[0].bit, false};
        gather_parts(d_h, inbox, senders);
        add_helpers(shared, d_h, helper);
#pragma unroll
        for (u32 e = 0; e < EACH; e++) {
            if (!is_real(a, e)) continue;
            const u32 length = row_length[a][e % 2];
            if (p.d_first_h && length == 0)
                p.d_first_h[state_at(a, e)] = p.d_last_h ? p.d_last_h[state_at(a, e)] : 0;
            else if (p.d_first_h && (!reverse || length == steps))
                p.d_first_h[state_at(a, e)] = first_h(a, e, d_h[e]);
            if (p.d_first_c) p.d_first_c[state_at(a, e)] = scale * d_state[a][e];
        }
    }
#endif
    __syncthreads();
#pragma unroll
    for (u32 a = 0; a < CELLS; a++) {
        if (!active[a]) continue;
        // Sums of two rows of the batch, or of one.
        const u32 item = threadIdx.x + a * THREADS, in_group = row[a] - row0;
        const u32 pair = HELPERS == 4   ? in_group
                         : HELPERS == 2 ? in_group / 2
                                        : item / PLACES * 4 + item % 4;
#pragma unroll
        for (u32 e = 0; e < (EACH == 4 ? 8 : 4); e++)
            shared.d_bias[pair][unit[a] + 8 * (e / 4)][e % 4] = bias[a][e];
    }
    __syncthreads();
    if (threadIdx.x < 4 * UNITS) {
        float total = 0;
        for (u32 pair = 0; pair < (HELPERS == 4 ? NB : NB / 2); pair++)
            total += shared.d_bias[pair][threadIdx.x / 4][threadIdx.x % 4];
        const u64 to = (u64)(lane_id * p.all_groups + p.first_group + group) * N + block * UNITS;
        p.d_bias[to * 4 + threadIdx.x] = total;
    }
}
