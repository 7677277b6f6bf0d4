// The way back through a recurrence that is too large for one multiprocessor: all steps in one launch.
//
//   dh_s = what comes from above + dslots_{s+1} W_hh        dslots from dh, slot by slot: cell.cuh
//
// Blocks own units, rows and lanes as on the way forward. A block has its own 128 columns of dslots, multiplies them by its rows of
// W_hh, and so has a part of dh of every unit: it sends each owner its part, in f16; owners add the parts up, in a fixed order.
// STACKED, it multiplies them by its rows of W_ih too and sends the layer below what comes from above: a wavefront from the top.
//
// There are no flags: the lowest bit of every 32 says in which turn it was written. Places take turns, two for a layer's own parts,
// RING for those that come from above; each begins with zeros, the first turn's bit is 1. A place for own parts is written again only
// after its reader has sent what it made of it: that is what the writer has been waiting for since. The layer below sends nothing
// back, so it counts in `read` the steps that it has added up, and whoever is a RING ahead waits.
//
//   packed (lanes, N / 32, ALL_TILES, 2, 8, 128) 16 bytes each: weights as `pack_backward` leaves them
//   gates (S, B, N, 4) f16: what the way forward kept in, then the slots' gradients        c (S + 2, B, N) f16
//   d_above (S, B, width) f16: for both directions side by side, or for the highest layer
//   parts (2 + RING, lanes groups, N / 32 owners, N / 32 senders, NB / 8, 64, 4) f16       read (lanes groups, N / 32)
//   d_bias (lanes groups, N, 4) f32: sums over steps and rows
//
// Of gates and c the first and the second lane's are given. Gradients are scaled by whoever made d_above, so that what was divided
// by the number of positions does not vanish in f16.

static const u32 BLOCKS = N / 32;
static const u32 COLUMNS = NB / 8;
static const u32 TILES = ((N + 63) / 64 + 1) / 2;                    // of 64 units that dh is computed for, a warpgroup's, at most
static const u32 SEGMENTS = STACKED ? 2 : 1;                         // own units, and those of the layer below
static const u32 ALL_TILES = SEGMENTS * TILES;
static const u32 IN_REGISTERS = ALL_TILES < REGISTER_TILES ? ALL_TILES : REGISTER_TILES;
static const u32 IN_SHARED = ALL_TILES - IN_REGISTERS;
static const u32 THREADS = 256;
static const u32 CELLS = (64 * COLUMNS + THREADS - 1) / THREADS;     // fours of cells that a thread has
static const u32 PART = 64 * COLUMNS * 4;                            // f16 of what one block sends another
static const u32 OWN_TURNS = 2;

struct Shared {
    u16 weights[IN_SHARED + 1][2][64 * 128]; // by warpgroup: (128, 64) in tiles; one more, since there is no array of none
    union {
        u16 d_slots[2][128 * NB];            // by step: (128, NB) in tiles, 4 slots of unit 0, of unit 1, ..
        float d_bias[NB / 2][32][4];
    };
};
static_assert(sizeof(Shared) == SHARED, "as `persistent/tiling.rs` counts");

// The bit of a turn, where so many take turns.
__device__ __forceinline__ u32 bit_of(u32 taken, u32 turns) { return (taken / turns + 1) & 1; }

// Multiplies `here` tiles of weights by dslots and sends owners their parts. While one tile is multiplied, the one before it is sent.
template <u32 here>
__device__ __forceinline__ void send(
    const u32 (&w)[IN_REGISTERS][8][4], u64 weights_at, u64 d_at, u16* to_own, u16* to_below, u32 taken) {
    const u32 warp = threadIdx.x / 32, warpgroup = warp / 4;
    float sum[2][SUMS];
#pragma unroll
    for (u32 tile = 0; tile <= here; tile++) {
        if (tile < here) {
            pinned(sum[tile % 2]);
            products_fence();
#pragma unroll
            for (u32 depth = 0; depth < 8; depth++) {
                u64 b = with_lower(d_at, (u32)d_at + depth * 2 * NB);
                if (tile < IN_REGISTERS) product(sum[tile % 2], w[tile][depth], b, depth > 0);
                else {
                    u32 at = (u32)weights_at + (tile - IN_REGISTERS) * 2048 + depth * 128;
                    product(sum[tile % 2], with_lower(weights_at, at), b, depth > 0);
                }
            }
            products_commit();
        }
        if (tile == 0) continue;
        if (tile < here) products_wait<1>();
        else products_wait<0>();
        float(&d)[SUMS] = sum[(tile - 1) % 2];
        pinned(d);
        const bool below = tile - 1 >= TILES;
        const u32 bit = bit_of(taken, below ? RING : OWN_TURNS);
        const u32 owner = (warpgroup * TILES + (tile - 1) % TILES) * 2 + warp % 4 / 2;
        if (owner >= BLOCKS) continue;
#pragma unroll
        for (u32 j = 0; j < COLUMNS; j++) {
            uint2 v = make_uint2(pack(bounded(d[4 * j]), bounded(d[4 * j + 1])), pack(bounded(d[4 * j + 2]), bounded(d[4 * j + 3])));
            v.x = v.x & ~1u | bit, v.y = v.y & ~1u | bit;
            show2((below ? to_below : to_own) + (u64)owner * BLOCKS * PART + j * 256, v);
        }
    }
}

// What all blocks of a group have sent for a thread's four cells, or nothing.
struct Sent {
    const u16* at;
    u32 bit;
    bool any;
};

// Adds it, when it has come. From all of them at once: each is a way to the memory and back.
__device__ __forceinline__ void gather(float (&d_h)[4], const Sent (&sent)[SEGMENTS]) {
#pragma unroll 1
    for (u32 first = 0; first < BLOCKS; first += BATCH) {
        uint2 v[SEGMENTS][BATCH];
        auto look = [&](u32 from, u32 i) { return look2(sent[from].at + (u64)(first + i) * PART); };
#pragma unroll
        for (u32 from = 0; from < SEGMENTS; from++)
#pragma unroll
            for (u32 i = 0; i < BATCH; i++) {
                v[from][i] = make_uint2(sent[from].bit, sent[from].bit);
                if (first + i < BLOCKS && sent[from].any) v[from][i] = look(from, i);
            }
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (u32 from = 0; from < SEGMENTS; from++)
#pragma unroll
                for (u32 i = 0; i < BATCH; i++) {
                    const u32 bit = sent[from].bit;
                    if (((v[from][i].x ^ bit) | (v[from][i].y ^ bit)) & 1) v[from][i] = look(from, i), missing = true;
                }
        } while (missing);
#pragma unroll
        for (u32 from = 0; from < SEGMENTS; from++)
#pragma unroll
            for (u32 i = 0; i < BATCH; i++) {
                if (first + i >= BLOCKS || !sent[from].any) continue;
                const uint2 two = v[from][i];
                d_h[0] += low(two.x), d_h[1] += high(two.x), d_h[2] += low(two.y), d_h[3] += high(two.y);
            }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) persistent_backward(
    const uint4* packed, u16* gates, u16* gates_2, const u16* c, const u16* c_2, const u16* d_above, u32 width, u16* parts, u32* read,
    float* d_bias, const u32* run, u32 lanes, u32 groups, u32 first_row, u32 first_group, u32 all_groups, u32 steps, u32 rows) {
    Shared& shared = *(Shared*)block_memory();
    const u32 block = blockIdx.x % BLOCKS, group = blockIdx.x / BLOCKS % groups, of = blockIdx.x / BLOCKS / groups; // lane `of`
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32, warpgroup = warp / 4;
    const u32 row0 = first_row + group * NB;
    const bool reverse = !STACKED && of > 0, sends_below = STACKED && of > 0, hears_above = STACKED && of + 1 < lanes;
    packed += ((u64)of * BLOCKS + block) * ALL_TILES * 2048;
    auto step = [&](u32 taken) { return reverse ? taken : steps - 1 - taken; };

    for (u32 i = threadIdx.x; i < IN_SHARED * 2048; i += THREADS) ((uint4*)shared.weights)[i] = packed[IN_REGISTERS * 2048 + i];
    u32 w[IN_REGISTERS][8][4];
#pragma unroll
    for (u32 tile = 0; tile < IN_REGISTERS; tile++)
#pragma unroll
        for (u32 depth = 0; depth < 8; depth++) {
            uint4 v = packed[((tile * 2 + warpgroup) * 8 + depth) * 128 + threadIdx.x % 128];
            w[tile][depth][0] = v.x, w[tile][depth][1] = v.y, w[tile][depth][2] = v.z, w[tile][depth][3] = v.w;
        }

    // A thread's cells are in the order in which products hand out results: place 0 .. 63 of a part, rows 8j of the batch.
    // Of each four: units u and u + 8 of the block's, rows b and b + 1.
    float d_state[CELLS][4], c_now[CELLS][4], bias[CELLS][8];
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
        for (u32 e = 0; e < 4; e++) d_state[a][e] = 0;
#pragma unroll
        for (u32 e = 0; e < 8; e++) bias[a][e] = 0;
    }
    gates += (gates_2 - gates) * of + block * 32 * 4;
    c += (c_2 - c) * of + block * 32;
    d_above += (STACKED ? 0 : of * N) + block * 32;
    // Cell e of four: unit + 8 (e / 2), row + e % 2
    auto c_at = [&](u32 at, u32 a, u32 e) { return whole(c[((u64)at * rows + row[a] + e % 2) * N + unit[a] + 8 * (e / 2)]); };
#pragma unroll
    for (u32 a = 0; a < CELLS; a++)
#pragma unroll
        for (u32 e = 0; e < 4; e++) c_now[a][e] = until[a][e % 2] ? c_at(step(0) + 1, a, e) : 0;

    // What the next step needs is on its way while this one's products are made: slots, c before it, and what comes from above.
    uint2 kept[CELLS][4];
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
                kept[a][e] = *(const uint2*)(gates + (slot * N + own) * 4);
                c_ahead[a][e] = c[((u64)(reverse ? s + 2 : s) * rows + row[a] + e % 2) * N + own];
                if (!hears_above) above[a][e] = d_above[slot * width + own];
            }
    };
#pragma unroll
    for (u32 a = 0; a < CELLS; a++)
#pragma unroll
        for (u32 e = 0; e < 4; e++) kept[a][e] = make_uint2(0, 0), c_ahead[a][e] = above[a][e] = 0;
    look_at(0);

    const u64 of_group = (u64)BLOCKS * BLOCKS * PART, turn = (u64)lanes * groups * of_group; // parts of a group, and of all
    const u64 weights_at = tiles(shared_address(shared.weights[0][warpgroup]), 64), d_at = tiles(shared_address(shared.d_slots), NB);
    // Where parts for owner 0 of a layer are, in their turn; and the bit that says it is theirs.
    auto own_parts = [&](u32 taken) { return parts + taken % OWN_TURNS * turn + (u64)(of * groups + group) * of_group; };
    auto parts_from = [&](u32 layer, u32 taken) {
        return parts + (OWN_TURNS + taken % RING) * turn + (u64)(layer * groups + group) * of_group;
    };
    all_seen_by_products();
    __syncthreads();

    for (u32 taken = 0; taken < steps; taken++) {
        const u32 s = step(taken);
#pragma unroll
        for (u32 a = 0; a < CELLS; a++) {
            if (!active[a]) continue;
            float d_h[4] = {0, 0, 0, 0};
            const u64 mine = (u64)block * BLOCKS * PART + (threadIdx.x + a * THREADS) * 4;
            Sent sent[SEGMENTS];
            sent[0] = {own_parts(taken - 1) + mine, bit_of(taken - 1, OWN_TURNS), taken > 0};
            if (STACKED) sent[SEGMENTS - 1] = {parts_from(of + 1, taken) + mine, bit_of(taken, RING), hears_above};
            gather(d_h, sent);
#pragma unroll
            for (u32 e = 0; e < 4; e++) {
                float d[4] = {low(kept[a][e].x), high(kept[a][e].x), low(kept[a][e].y), high(kept[a][e].y)};
                bool alive = s < until[a][e % 2];
                float before = whole(c_ahead[a][e]);
                cell_backward(d, d_h[e] + whole(above[a][e]), d_state[a][e], c_now[a][e], before);
                if (!alive) d_state[a][e] = 0;
                c_now[a][e] = before; // behind a sequence's end too: the step before may not be
#pragma unroll
                for (u32 k = 0; k < 4; k++) {
                    d[k] = alive ? bounded(d[k]) : 0;
                    bias[a][4 * (e / 2) + k] += d[k];
                }
                uint2 packed = make_uint2(pack(d[0], d[1]), pack(d[2], d[3]));
                u32 own = unit[a] + 8 * (e / 2), b = row[a] + e % 2 - row0;
                *(uint2*)(shared.d_slots[taken & 1] + (own / 2 * NB + b) * 8 + own % 2 * 4) = packed;
                if (row[a] + e % 2 < rows) *(uint2*)(gates + (((u64)s * rows + row[a] + e % 2) * N + own) * 4) = packed;
            }
        }
        if (taken + 1 == steps && !sends_below) break;
        if (taken + 1 < steps) look_at(taken + 1);
        if (sends_below && taken >= RING && warp == 0 && lane < BLOCKS) {
            const u32* reader = read + ((of - 1) * groups + group) * BLOCKS + lane;
            while (look1_acquired(reader) + RING <= taken) {}
        }
        seen_by_products();
        __syncthreads(); // dslots are there, and those of the step before have been read; so have the parts
        if (hears_above && threadIdx.x == 0) show1_released(read + (of * groups + group) * BLOCKS + block, taken + 1);
        u16* const to_own = own_parts(taken) + (u64)block * PART + ((warp & 1) * 32 + lane) * 4;
        u16* const to_below = parts_from(of, taken) + (u64)block * PART + ((warp & 1) * 32 + lane) * 4;
        u32 weights_low = (u32)weights_at, d_low = (u32)d_at + (taken & 1) * (128 * NB * 2 / 16);
        opaque(weights_low, d_low);
        if (sends_below) send<ALL_TILES>(w, with_lower(weights_at, weights_low), with_lower(d_at, d_low), to_own, to_below, taken);
        else send<TILES>(w, with_lower(weights_at, weights_low), with_lower(d_at, d_low), to_own, to_below, taken);
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
        d_bias[((u64)(of * all_groups + first_group + group) * N + block * 32) * 4 + threadIdx.x] = total;
    }
}
