// The way forward of a recurrence that is too large for one multiprocessor: all steps in one launch.
//
//   slots_s = x_s W_ih^T + b + h_{s-1} W_hh^T          what a cell makes of its four slots: cell.cuh
//
// A block owns 32 units (128 rows of weights, which stay in registers and shared memory) of NB rows of the batch; the N / 32
// blocks of a group have the same rows, and tell each other h through device memory. Lanes are more groups, with weights of their
// own: the two directions of a layer, or, STACKED, the layers of a stack. All blocks must run at once.
//
// Where x is what the layer below told, in BELOW directions, it is multiplied here too: that is done while h is on its way. The
// layers of a stack run at once, each as far ahead of the one above as it gets: a wavefront. Otherwise the layer below has finished.
//
// There are no flags: what is told is filled with a pattern that no f16 result has, and whoever needs a word looks until it is
// another. Two warpgroups multiply and do the cell's arithmetic; the others bring h to shared memory: themselves where there is
// little of it, by bulk copies where there is much (BULK), which leave the multipliers in peace.
//
//   packed (lanes, N / 32, DEPTH, 2, 128) 16 bytes each: weights as `pack_forward` leaves them        bias (lanes, N, 4) f32
//   gates (S, B, N, 4) f16: x W_ih^T in, then what the way back needs        h (S + 2, B, width) f16    c (S + 2, B, N) f16
//   told (S, lanes groups, N / 8, NB, 8) f16: h once more, as products read it
//   below (S, BELOW groups, N / 8, NB, 8) f16: what the layer below told
//
// with N = n padded to a multiple of 32. Of gates, h and c the first and the second lane's are given; further ones lie as far
// apart. Of told and below there are two, for passes in turn (exchange.cu). With TABLE, x W_ih^T is a row of table
// (lanes, symbols, N, 4) instead.

static const u32 BLOCKS = N / 32;
static const u32 SEGMENTS = BELOW + 1;                             // of what is multiplied: own h, then what is below
static const u32 SEGMENT = N / 16;                                 // products of one, 16 units of h each
static const u32 DEPTH = SEGMENTS * SEGMENT;                       // those with what is below come first
static const u32 IN_REGISTERS = DEPTH < REGISTERS ? DEPTH : REGISTERS;
static const u32 IN_SHARED = DEPTH - IN_REGISTERS;
static const u32 CHUNKS = (N + CHUNK - 1) / CHUNK;                 // CHUNK: units of h that are waited for at once
static const u32 EACH = CHUNK * NB / 256;                          // 16 bytes of a chunk that a loader has
static const u32 COLUMNS = NB / 8;                                 // cells of a thread: one of each 8 rows of the batch
static const u32 ROOM = 8;                                         // behind a row's units, so that rows begin at other banks
static const u32 MULTIPLIERS = 256;                                // threads; as many LOADERS, or half
static const u32 OF_ALL = LOADERS == 128 ? 3 * 168 : 4 * 128;      // registers, of a thread of each warpgroup
static const u32 MULTIPLIER_REGISTERS = (OF_ALL - LOADERS / 128 * LOADER_REGISTERS) / 2;
// Where a warp brings all of its h at once, looking before this block has told only keeps the others' words from coming.
static const bool AFTER_TELLING = !BULK && CHUNKS <= LOADERS / 32;

struct Shared {
    u16 weights[IN_SHARED + 1][2][1024]; // by warpgroup: (16, 64) in tiles; one more, since there is no array of none
    u16 h[SEGMENTS][N * NB];             // (N, NB) in tiles
    u16 rows[2][2][NB][32 + ROOM];       // by step, h or c: the block's 32 units of each row
    u16 slots[2][NB][32 * 4 + ROOM];     // and what the way back needs of them
    u16 table[TABLE + 1][32][4];
    u64 full[SEGMENTS][CHUNKS], copied[SEGMENTS][CHUNKS], empty, empty_below, has_told;
};
static_assert(sizeof(Shared) == SHARED, "as `persistent/tiling.rs` counts");
static_assert(STACKED || BELOW * CHUNKS <= 32, "a warp copies what a finished layer has told");

// A chunk is a warp's, which looks at all of it.
__device__ __forceinline__ void bring(Shared& shared, u32 segment, const u16* told) {
    const u32 lane = threadIdx.x % 32, own = threadIdx.x / 32 - MULTIPLIERS / 32;
    for (u32 chunk = own; chunk < CHUNKS; chunk += LOADERS / 32) {
        uint4 v[EACH];
        auto at = [&](u32 i) { return chunk * CHUNK * NB + (i * 32 + lane) * 8; };
        auto there = [&](u32 i) { return N % CHUNK == 0 || at(i) < N * NB; };
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            v[i] = make_uint4(0, 0, 0, 0);
            if (there(i)) v[i] = look4(told + at(i));
        }
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (u32 i = 0; i < EACH; i++) {
                if (any_missing(v[i])) v[i] = look4(told + at(i)), missing = true;
            }
        } while (missing);
#pragma unroll
        for (u32 i = 0; i < EACH; i++) {
            if (there(i)) *(uint4*)(shared.h[segment] + at(i)) = v[i];
        }
        seen_by_products();
        __syncwarp();
        if (lane == 0) barrier_arrive(shared_address(&shared.full[segment][chunk]));
    }
}

// The same by copies. A chunk is what 4 blocks tell: the warp looks at the last word of each warp that writes there, and when those
// have come copies all. That others are late is then seen in the copy, which is made again.
__device__ __forceinline__ void bring_by_copies(Shared& shared, u32 segment, const u16* told, u32& parities) {
    const u32 lane = threadIdx.x % 32, own = threadIdx.x / 32 - MULTIPLIERS / 32;
    auto values = [](u32 chunk) { return min(CHUNK, N - chunk * CHUNK) * NB; };
    auto copied = [&](u32 chunk) { return shared_address(&shared.copied[segment][chunk]); };
    auto copy = [&](u32 chunk) {
        u32 first = chunk * CHUNK * NB;
        if (lane == 0) copy_to_shared(shared_address(shared.h[segment] + first), told + first, 2 * values(chunk), copied(chunk));
    };
    for (u32 chunk = own; chunk < CHUNKS; chunk += LOADERS / 32) {
        // Warp lane % 8 of block lane / 8 writes 4 units of all rows.
        const u32 sample = (lane / 8 * 4 + lane % 8 / 2) * NB * 8 + (NB - 1) * 8 + lane % 2 * 4;
        while (__any_sync(~0u, sample < values(chunk) && look1(told + chunk * CHUNK * NB + sample) == SENTINEL)) {}
        copy(chunk);
    }
    for (u32 chunk = own; chunk < CHUNKS; chunk += LOADERS / 32) {
        for (;;) {
            const u32 bit = segment * CHUNKS + chunk;
            barrier_wait(copied(chunk), parities >> bit & 1);
            parities ^= 1 << bit;
            const u16* there = shared.h[segment] + chunk * CHUNK * NB;
            bool late = false;
#pragma unroll 8
            for (u32 i = 0; i < EACH; i++) {
                const u32 at = (i * 32 + lane) * 8;
                if (N % CHUNK == 0 || at < values(chunk)) late |= any_missing(*(const uint4*)(there + at));
            }
            if (!__any_sync(~0u, late)) break;
            copy(chunk);
        }
        if (lane == 0) barrier_arrive(shared_address(&shared.full[segment][chunk]));
    }
}

// All that a layer that has finished has told for a step, in directions that lie so far apart. A warp's first threads have a chunk
// each.
__device__ __forceinline__ void copy_finished(Shared& shared, const u16* told, u64 apart) {
    const u32 segment = 1 + threadIdx.x % 32 / CHUNKS, chunk = threadIdx.x % 32 % CHUNKS;
    if (segment > BELOW) return;
    const u32 first = chunk * CHUNK * NB, bytes = 2 * min(CHUNK, N - chunk * CHUNK) * NB;
    const u32 full = shared_address(&shared.full[segment][chunk]);
    copy_to_shared(shared_address(shared.h[segment] + first), told + (segment - 1) * apart + first, bytes, full);
}

// Adds the products with some segments to the sums; `first` of all products is their first.
template <u32 first, u32 segments>
__device__ __forceinline__ void multiply(
    float (&sum)[SUMS], const u32 (&w)[IN_REGISTERS][4], u64 weights_at, u64 h_at, u32 full, u32 parity) {
    u32 weights_low = (u32)weights_at, h_low = (u32)h_at;
    opaque(weights_low, h_low);
    pinned(sum);
#pragma unroll
    for (u32 at = 0; at < segments * SEGMENT; at++) {
        if (at % SEGMENT % (CHUNK / 16) == 0) {
            barrier_wait(full + 8 * (at / SEGMENT * CHUNKS + at % SEGMENT / (CHUNK / 16)), parity);
            products_fence();
        }
        const u32 depth = first + at;
        u64 b = with_lower(h_at, h_low + at * 2 * NB);
        if (depth < IN_REGISTERS) product(sum, w[depth], b, 1);
        else product(sum, with_lower(weights_at, weights_low + (depth - IN_REGISTERS) * 256), b, 1);
    }
    products_commit();
    products_wait<0>();
    pinned(sum);
}

extern "C" __global__ void __launch_bounds__(MULTIPLIERS + LOADERS, 1) persistent_forward(
    const uint4* packed, const float* bias, u16* gates, u16* gates_2, const u16* table, const u32* tokens, u32 symbols, u16* c,
    u16* c_2, u16* h, u16* h_2, u32 width, u16* told, u16* told_2, const u16* below, const u16* below_2, const u32* turn,
    const u32* run, u32 lanes, u32 groups, u32 first_row, u32 steps, u32 rows, u32 keep) {
    Shared& shared = *(Shared*)block_memory();
    const u32 block = blockIdx.x % BLOCKS, group = blockIdx.x / BLOCKS % groups, of = blockIdx.x / BLOCKS / groups; // lane `of`
    const u32 warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const u32 row0 = first_row + group * NB;          // of the batch
    const bool reads_below = STACKED ? of > 0 : BELOW > 0, reverse = !STACKED && of > 0;
    const u32 full = shared_address(shared.full), full_below = shared_address(shared.full[BELOW > 0]);
    const u32 empty = shared_address(&shared.empty), empty_below = shared_address(&shared.empty_below);
    const u32 has_told = shared_address(&shared.has_told);
    packed += ((u64)of * BLOCKS + block) * DEPTH * 256;
    if (*turn & 1) told = told_2, below = below_2;
    told += (u64)(of * groups + group) * N * NB;
    const u64 told_apart = (u64)lanes * groups * N * NB; // from step to step
    auto step = [&](u32 taken) { return reverse ? steps - 1 - taken : taken; };

    for (u32 i = threadIdx.x; i < IN_SHARED * 256; i += blockDim.x) ((uint4*)shared.weights)[i] = packed[IN_REGISTERS * 256 + i];
    for (u32 i = threadIdx.x; TABLE && !reads_below && i < symbols * 16; i += blockDim.x) {
        ((uint4*)shared.table)[i] = ((const uint4*)table)[((u64)of * symbols + i / 16) * (N / 2) + block * 16 + i % 16];
    }
    if (threadIdx.x == 0) {
        for (u32 i = 0; i < 2 * SEGMENTS * CHUNKS; i++) barrier_init(full + 8 * i, 1); // and of copies
        barrier_init(empty, MULTIPLIERS / 32);
        barrier_init(empty_below, MULTIPLIERS / 32);
        barrier_init(has_told, MULTIPLIERS / 32);
    }
    all_seen_by_products();
    __syncthreads();

    if (warp >= MULTIPLIERS / 32) {
        leave_registers<LOADER_REGISTERS>();
        if (warp - MULTIPLIERS / 32 >= CHUNKS) return; // nothing to bring, so nobody would wait for it: it could miss a turn
        u32 parities = 0; // of copies, by chunk
        auto fetch = [&](u32 segment, const u16* from) {
            if (BULK) bring_by_copies(shared, segment, from, parities);
            else bring(shared, segment, from);
        };
        // Of a stack's layers all are told in the same place. What has been told by a layer that has finished is only copied.
        const u64 of_group = (u64)N * NB, below_apart = STACKED ? told_apart : BELOW * groups * of_group;
        const u16* from = STACKED ? told - groups * of_group : below + group * of_group;
        auto fetch_below = [&](u32 taken) {
            const u16* at_step = from + step(taken) * below_apart;
            if (STACKED) fetch(1, at_step);
            else copy_finished(shared, at_step, groups * of_group);
        };
        // Whoever does not copy must not wait for room either: as nobody waits for it, it could miss a turn.
        const bool brings_below = reads_below && (STACKED || warp == MULTIPLIERS / 32);
        if (brings_below) fetch_below(0);
        for (u32 taken = 0; taken < steps; taken++) {
            if (taken > 1) barrier_wait(empty, taken & 1);
            if (AFTER_TELLING && taken > 0) barrier_wait(has_told, taken - 1 & 1);
            if (taken > 0) fetch(0, told + step(taken - 1) * told_apart);
            // The layer below is ahead: what it tells is there before it is needed.
            if (brings_below && taken + 1 < steps) {
                barrier_wait(empty_below, taken & 1);
                fetch_below(taken + 1);
            }
        }
        return;
    }

    take_registers<MULTIPLIER_REGISTERS>();
    const u32 warpgroup = warp / 4, g = lane / 4, q = lane % 4, odd = g & 1;
    const u32 own = warpgroup * 16 + warp % 4 * 4 + g / 2, unit = block * 32 + own; // its unit, of the block's and of all
    u32 w[IN_REGISTERS][4];
#pragma unroll
    for (u32 depth = 0; depth < IN_REGISTERS; depth++) {
        uint4 v = packed[(depth * 2 + warpgroup) * 128 + threadIdx.x % 128];
        w[depth][0] = v.x, w[depth][1] = v.y, w[depth][2] = v.z, w[depth][3] = v.w;
    }
    // Of a product a thread has two slots of its unit, in rows 2q and 2q + 1 of each 8: even lines 0 and 1, odd ones 2 and 3.
    const float2 own_bias = *(const float2*)(bias + ((u64)of * N + unit) * 4 + 2 * odd);
    // After the neighbours' exchange it has all of them, in row 2q + odd.
    const u32 row_in = 2 * q + odd;
    float state[COLUMNS];
    u32 until[COLUMNS];
#pragma unroll
    for (u32 j = 0; j < COLUMNS; j++) {
        u32 row = row0 + 8 * j + row_in;
        state[j] = 0;
        until[j] = row < rows ? run[row] : 0;
    }
    gates += (gates_2 - gates) * of + (u64)unit * 4;
    // A step of zeros lies before the first and behind the last of h and c.
    h += (h_2 - h) * of + (u64)row0 * width + block * 32;
    c += (c_2 - c) * of + (u64)row0 * N + block * 32;
    // Its own part of those.
    for (u32 i = threadIdx.x; i < 2 * NB * 4; i += MULTIPLIERS) {
        const u32 row = i / 4 % NB, piece = i % 4 * 8;
        if (row0 + row >= rows) continue;
        const u64 to = (u64)(i / (NB * 4) ? steps + 1 : 0) * rows + row;
        *(uint4*)(h + to * width + piece) = make_uint4(0, 0, 0, 0);
        if (keep) *(uint4*)(c + to * N + piece) = make_uint4(0, 0, 0, 0);
    }
    // What a warp tells is 4 units of each row.
    told += (block * 4 + own / 8) * NB * 8 + own / 4 % 2 * 4;
    // What x gives, a step ahead: a symbol, or two slots. In rows 2q and 2q + 1.
    u32 from_x[COLUMNS][2];
    auto look_at_x = [&](u32 taken) {
#pragma unroll
        for (u32 j = 0; j < COLUMNS; j++)
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                u32 row = row0 + 8 * j + 2 * q + e;
                u64 slot = (u64)step(taken) * rows + row;
                from_x[j][e] = TABLE ? NONE : 0;
                if (row >= rows || taken >= steps || reads_below) continue;
                from_x[j][e] = TABLE ? tokens[slot] : *(const u32*)(gates + slot * N * 4 + 2 * odd);
            }
    };
    look_at_x(0);
    const u64 weights_at = tiles(shared_address(shared.weights[0][warpgroup]), 64);

    for (u32 taken = 0; taken < steps; taken++) {
        const u32 s = step(taken);
        float sum[SUMS];
#pragma unroll
        for (u32 j = 0; j < COLUMNS; j++)
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                u32 two = from_x[j][e];
                if (TABLE) two = two < symbols ? *(const u32*)&shared.table[two][own][2 * odd] : 0;
                sum[4 * j + e] = low(two) + own_bias.x;
                sum[4 * j + 2 + e] = high(two) + own_bias.y;
            }
        if (reads_below) {
            const u64 below_at = tiles(shared_address(shared.h[BELOW > 0]), NB);
            multiply<0, BELOW>(sum, w, weights_at, below_at, full_below, taken & 1);
            __syncwarp();
            if (lane == 0) barrier_arrive(empty_below);
        }
        if (taken > 0) { // before, h is zero
            const u64 h_at = tiles(shared_address(shared.h[0]), NB);
            multiply<BELOW * SEGMENT, 1>(sum, w, weights_at, h_at, full, taken - 1 & 1);
            __syncwarp();
            if (lane == 0) barrier_arrive(empty);
        }
        auto &h_rows = shared.rows[taken & 1][0], &c_rows = shared.rows[taken & 1][1];
#pragma unroll
        for (u32 j = 0; j < COLUMNS; j++) {
            // Each keeps one row and gives the other away.
            float give0 = odd ? sum[4 * j] : sum[4 * j + 1], give1 = odd ? sum[4 * j + 2] : sum[4 * j + 3];
            float got0 = __shfl_xor_sync(~0u, give0, 4), got1 = __shfl_xor_sync(~0u, give1, 4);
            float slots[4] = {odd ? got0 : sum[4 * j], odd ? got1 : sum[4 * j + 2], odd ? sum[4 * j + 1] : got0,
                              odd ? sum[4 * j + 3] : got1};
            float h_new = 0;
            if (s < until[j]) h_new = cell_forward(slots, state[j]);
            else slots[0] = slots[1] = slots[2] = slots[3] = state[j] = 0;
            h_rows[8 * j + row_in][own] = half(h_new);
            c_rows[8 * j + row_in][own] = half(state[j]);
            if (keep) *(uint2*)&shared.slots[taken & 1][8 * j + row_in][own * 4] = make_uint2(pack(slots[0], slots[1]), pack(slots[2], slots[3]));
        }
        __syncwarp();
        // First what others wait for.
#pragma unroll
        for (u32 row = lane; row < NB; row += 32) {
            show2(told + s * told_apart + row * 8, *(const uint2*)&h_rows[row][own / 4 * 4]);
        }
        if (AFTER_TELLING) {
            __syncwarp();
            if (lane == 0) barrier_arrive(has_told);
        }
        look_at_x(taken + 1);
        // All warps' rows are there, and those of the step before have been read.
        first_threads_meet<MULTIPLIERS>();
#pragma unroll
        for (u32 i = threadIdx.x; i < 2 * NB * 4; i += MULTIPLIERS) {
            const u32 which = i / (NB * 4), row = i / 4 % NB, piece = i % 4 * 8;
            if (row0 + row >= rows || which > keep) continue;
            u64 to = (u64)(s + 1) * rows + row;
            *(uint4*)(which ? c + to * N + piece : h + to * width + piece) = *(const uint4*)&shared.rows[taken & 1][which][row][piece];
        }
        if (!keep) continue;
#pragma unroll
        for (u32 i = threadIdx.x; i < NB * 16; i += MULTIPLIERS) {
            const u32 row = i / 16, piece = i % 16 * 8;
            if (row0 + row >= rows) break;
            u64 to = (u64)s * rows + row0 + row;
            *(uint4*)(gates + to * N * 4 - own * 4 + piece) = *(const uint4*)&shared.slots[taken & 1][row][piece];
        }
    }
}
