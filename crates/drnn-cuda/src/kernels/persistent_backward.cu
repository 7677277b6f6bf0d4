// The way back through an LSTM that is too large for one multiprocessor: all steps in one launch.
//
//   dh_s = what comes from above + dgates_{s+1} W_hh
//   dc_s = dc_{s+1} f_{s+1} + dh_s o (1 - tanh(c_s)^2)        dgates from both, gate by gate
//
// Blocks own units, rows and lanes as on the way forward. A block has its own 128 columns of dgates, multiplies them by its rows of
// W_hh, and so has a part of dh of every unit: it sends each owner its part, in f16; owners add the parts up, in a fixed order.
//
// There are no flags: the lowest bit of every 32 says in which turn it was written. Two places take turns, so the bit changes
// every other step; the place begins with zeros, the first turn's bit is 1. A place is written again only after its reader has
// sent what it made of it: that is what the writer has been waiting for since.
//
//   gates (D, S, B, N, 4) f16    i, f, g, o in, then their gradients        c (D, S + 2, B, N) f16    d_above (S, B, D N) f16
//   parts (2, D groups, N / 32 owners, N / 32 senders, NB / 8, 64, 4) f16   d_bias (D groups, N, 4) f32: sums over steps and rows
//
// Gradients are scaled by whoever made d_above, so that what was divided by the number of positions does not vanish in f16.

static const u32 BLOCKS = N / 32;
static const u32 COLUMNS = NB / 8;
static const u32 TILES = (N + 63) / 64;                              // of 64 units that dh is computed for
static const u32 OWN_TILES = (TILES + 1) / 2;                        // of a warpgroup, at most
static const u32 IN_REGISTERS = OWN_TILES < REGISTER_TILES ? OWN_TILES : REGISTER_TILES;
static const u32 IN_SHARED = OWN_TILES - IN_REGISTERS;
static const u32 THREADS = 256;
static const u32 CELLS = (64 * COLUMNS + THREADS - 1) / THREADS;     // fours of cells that a thread has
static const u32 PART = 64 * COLUMNS * 4;                            // f16 of what one block sends another

struct Shared {
    u16 weights[2][IN_SHARED + 1][64 * 128]; // by warpgroup: (128, 64) in tiles; one more, since there is no array of none
    union {
        u16 d_gates[2][128 * NB];            // by step: (128, NB) in tiles, 4 gates of unit 0, of unit 1, ..
        float d_bias[NB / 2][32][4];
    };
};
static_assert(sizeof(Shared) == SHARED, "as `persistent/tiling.rs` counts");

extern "C" __global__ void __launch_bounds__(THREADS, 1) persistent_backward(
    const float* w_hh, u32 params_apart, u16* gates, const u16* c, const u16* d_above, u16* parts, float* d_bias, const u32* run,
    u32 directions, u32 groups, u32 first_row, u32 first_group, u32 all_groups, u32 steps, u32 rows, u32 n) {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    Shared& shared = *(Shared*)dynamic;
    const u32 block = blockIdx.x % BLOCKS, group = blockIdx.x / BLOCKS % groups, direction = blockIdx.x / BLOCKS / groups;
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, warpgroup = warp / 4, g = lane / 4, q = lane % 4;
    const u32 row0 = first_row + group * NB, width = directions * N;
    w_hh += (u64)direction * params_apart;
    auto step = [&](u32 taken) { return direction ? taken : steps - 1 - taken; };

    // Tile `tile`'s line `unit`, column k: W_hh of gate k % 4 of the block's unit k / 4, transposed
    auto weight = [&](u32 tile, u32 line, u32 k) -> float {
        u32 to = tile * 64 + line, gate = k % 4, from = block * 32 + k / 4;
        return to < n && from < n ? w_hh[(u64)(gate * n + from) * n + to] : 0;
    };
    for (u32 i = threadIdx.x; i < 2 * IN_SHARED * 8192; i += THREADS) {
        u32 line = i % 64, k = i / 64 % 128, at = i / 8192; // neighbouring threads read neighbouring columns of W_hh
        u32 tile = at / 2 + IN_REGISTERS, of = at % 2;
        shared.weights[of][at / 2][(k / 8) * 512 + line * 8 + k % 8] = half(weight(of * OWN_TILES + tile, line, k));
    }
    u32 w[IN_REGISTERS][8][4];
#pragma unroll
    for (u32 tile = 0; tile < IN_REGISTERS; tile++)
#pragma unroll
        for (u32 depth = 0; depth < 8; depth++)
#pragma unroll
            for (u32 i = 0; i < 4; i++) {
                u32 line = 16 * (warp % 4) + g + 8 * (i % 2), k = 16 * depth + 2 * q + 8 * (i / 2);
                u32 of = warpgroup * OWN_TILES + tile;
                w[tile][depth][i] = pack(weight(of, line, k), weight(of, line, k + 1));
            }

    // A thread's cells are in the order in which products hand out results: place 0 .. 63 of a part, rows 8j of the batch.
    // Of each four: units u and u + 8 of the block's, rows b and b + 1.
    float d_cell[CELLS][4], c_now[CELLS][4], bias[CELLS][8];
    u32 until[CELLS][2], unit[CELLS], row[CELLS];
    bool active[CELLS];
#pragma unroll
    for (u32 a = 0; a < CELLS; a++) {
        u32 item = threadIdx.x + a * THREADS, place = item % 64, j = item / 64;
        active[a] = item < 64 * COLUMNS;
        unit[a] = place / 32 * 16 + place % 32 / 4;
        row[a] = row0 + 8 * j + 2 * (place % 4);
#pragma unroll
        for (u32 e = 0; e < 2; e++) until[a][e] = active[a] && row[a] + e < rows ? run[row[a] + e] : 0;
#pragma unroll
        for (u32 e = 0; e < 4; e++) d_cell[a][e] = 0;
#pragma unroll
        for (u32 e = 0; e < 8; e++) bias[a][e] = 0;
    }
    gates += ((u64)direction * steps * rows * N + block * 32) * 4;
    c += (u64)direction * (steps + 2) * rows * N + block * 32;
    d_above += direction * N + block * 32;
    // Cell e of four: unit + 8 (e / 2), row + e % 2
    auto c_at = [&](u32 at, u32 a, u32 e) { return whole(c[((u64)at * rows + row[a] + e % 2) * N + unit[a] + 8 * (e / 2)]); };
#pragma unroll
    for (u32 a = 0; a < CELLS; a++)
#pragma unroll
        for (u32 e = 0; e < 4; e++) c_now[a][e] = until[a][e % 2] ? c_at(step(0) + 1, a, e) : 0;

    // What the next step needs is on its way while this one's products are made: gates, c before it, and what comes from above.
    uint2 gate[CELLS][4];
    u16 c_ahead[CELLS][4], above[CELLS][4];
    auto look_at = [&](u32 taken) {
        const u32 s = step(taken);
#pragma unroll
        for (u32 a = 0; a < CELLS; a++)
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                if (!until[a][e % 2]) continue;
                u64 slot = (u64)s * rows + row[a] + e % 2;
                u32 own = unit[a] + 8 * (e / 2);
                gate[a][e] = *(const uint2*)(gates + (slot * N + own) * 4);
                c_ahead[a][e] = c[((u64)(direction ? s + 2 : s) * rows + row[a] + e % 2) * N + own];
                above[a][e] = d_above[slot * width + own];
            }
    };
#pragma unroll
    for (u32 a = 0; a < CELLS; a++)
#pragma unroll
        for (u32 e = 0; e < 4; e++) gate[a][e] = make_uint2(0, 0), c_ahead[a][e] = above[a][e] = 0;
    look_at(0);

    const u64 own_parts = (u64)(direction * groups + group) * BLOCKS * BLOCKS * PART;
    const u64 turn = (u64)directions * groups * BLOCKS * BLOCKS * PART;
    const u64 weights_at = tiles(shared_address(shared.weights[warpgroup]), 64), d_at = tiles(shared_address(shared.d_gates), NB);
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncthreads();

    for (u32 taken = 0; taken < steps; taken++) {
        const u32 s = step(taken);
#pragma unroll
        for (u32 a = 0; a < CELLS; a++) {
            if (!active[a]) continue;
            float d_h[4] = {0, 0, 0, 0};
            if (taken > 0) {
                const u32 sent = taken - 1, bit = (sent / 2 + 1) & 1, item = threadIdx.x + a * THREADS;
                const u16* from = parts + (sent & 1) * turn + own_parts + (u64)block * BLOCKS * PART + item * 4;
#pragma unroll 1
                for (u32 first = 0; first < BLOCKS; first += BATCH) {
                    uint2 v[BATCH];
#pragma unroll
                    for (u32 i = 0; i < BATCH; i++) {
                        v[i] = make_uint2(bit, bit);
                        if (first + i < BLOCKS) v[i] = look2(from + (u64)(first + i) * PART);
                    }
                    bool missing;
                    do {
                        missing = false;
#pragma unroll
                        for (u32 i = 0; i < BATCH; i++) {
                            if (((v[i].x ^ bit) | (v[i].y ^ bit)) & 1) {
                                v[i] = look2(from + (u64)(first + i) * PART);
                                missing = true;
                            }
                        }
                    } while (missing);
#pragma unroll
                    for (u32 i = 0; i < BATCH; i++) {
                        if (first + i >= BLOCKS) break;
                        d_h[0] += low(v[i].x), d_h[1] += high(v[i].x), d_h[2] += low(v[i].y), d_h[3] += high(v[i].y);
                    }
                }
            }
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                float i = low(gate[a][e].x), f = high(gate[a][e].x), g = low(gate[a][e].y), o = high(gate[a][e].y);
                bool alive = s < until[a][e % 2];
                float c_before = whole(c_ahead[a][e]);
                d_h[e] += whole(above[a][e]);
                float tanh_c = fast_tanh(c_now[a][e]);
                float dc = d_cell[a][e] + d_h[e] * o * (1 - tanh_c * tanh_c);
                float d[4] = {dc * g * i * (1 - i), dc * c_before * f * (1 - f), dc * i * (1 - g * g),
                              d_h[e] * tanh_c * o * (1 - o)};
                d_cell[a][e] = alive ? dc * f : 0;
                c_now[a][e] = c_before; // behind a sequence's end too: the step before may not be
#pragma unroll
                for (u32 k = 0; k < 4; k++) {
                    d[k] = alive ? bounded(d[k]) : 0;
                    bias[a][4 * (e / 2) + k] += d[k];
                }
                uint2 packed = make_uint2(pack(d[0], d[1]), pack(d[2], d[3]));
                u32 own = unit[a] + 8 * (e / 2), b = row[a] + e % 2 - row0;
                *(uint2*)(shared.d_gates[taken & 1] + (own / 2 * NB + b) * 8 + own % 2 * 4) = packed;
                if (row[a] + e % 2 < rows) *(uint2*)(gates + (((u64)s * rows + row[a] + e % 2) * N + own) * 4) = packed;
            }
        }
        if (taken + 1 == steps) break;
        look_at(taken + 1);
        seen_by_products();
        __syncthreads(); // dgates are there, and those of the step before have been read
        const u32 bit = (taken / 2 + 1) & 1;
        u16* const to = parts + (taken & 1) * turn + own_parts + (u64)block * PART + ((warp & 1) * 32 + lane) * 4;
        u32 weights_low = (u32)weights_at, d_low = (u32)d_at + (taken & 1) * (128 * NB * 2 / 16); // opaque, as on the way forward
        asm volatile("" : "+r"(weights_low), "+r"(d_low));
        float sum[2][SUMS];
        // While one tile is multiplied, the one before it is sent.
#pragma unroll
        for (u32 tile = 0; tile <= OWN_TILES; tile++) {
            if (tile < OWN_TILES) {
                pinned(sum[tile % 2]);
                products_fence();
#pragma unroll
                for (u32 depth = 0; depth < 8; depth++) {
                    u64 b = with_lower(d_at, d_low + depth * 2 * NB);
                    if (tile < IN_REGISTERS) product(sum[tile % 2], w[tile][depth], b, depth > 0);
                    else {
                        u32 at = weights_low + (tile - IN_REGISTERS) * 1024 + depth * 128;
                        product(sum[tile % 2], with_lower(weights_at, at), b, depth > 0);
                    }
                }
                products_commit();
            }
            if (tile > 0) {
                if (tile < OWN_TILES) products_wait<1>();
                else products_wait<0>();
                float(&d)[SUMS] = sum[(tile - 1) % 2];
                pinned(d);
                u32 owner = (warpgroup * OWN_TILES + tile - 1) * 2 + (warp % 4) / 2;
                if (owner < BLOCKS) {
#pragma unroll
                    for (u32 j = 0; j < COLUMNS; j++) {
                        uint2 v = make_uint2(pack(bounded(d[4 * j]), bounded(d[4 * j + 1])),
                                             pack(bounded(d[4 * j + 2]), bounded(d[4 * j + 3])));
                        v.x = v.x & ~1u | bit, v.y = v.y & ~1u | bit;
                        show2(to + (u64)owner * BLOCKS * PART + j * 256, v);
                    }
                }
            }
        }
    }

    __syncthreads();
#pragma unroll
    for (u32 a = 0; a < CELLS; a++) {
        if (!active[a]) continue;
        u32 item = threadIdx.x + a * THREADS, pair = item / 64 * 4 + item % 4;
#pragma unroll
        for (u32 e = 0; e < 8; e++) shared.d_bias[pair][unit[a] + 8 * (e / 4)][e % 4] = bias[a][e];
    }
    __syncthreads();
    if (threadIdx.x < 128) {
        float total = 0;
        for (u32 pair = 0; pair < NB / 2; pair++) total += shared.d_bias[pair][threadIdx.x / 4][threadIdx.x % 4];
        d_bias[((u64)(direction * all_groups + first_group + group) * N + block * 32) * 4 + threadIdx.x] = total;
    }
}
