// Forward pass of a recurrence that is too large for one multiprocessor: all steps in one launch.
//
//   slots_s = x_s W_ih^T + b + h_{s-1} W_hh^T          cell arithmetic on the four slots: cell.cuh
//
// A block owns UNITS = 32 or 16 units (128 or 64 rows of weights, kept in registers and shared
// memory) and NB rows of the batch. The N / UNITS blocks of a group share the same rows and exchange
// h through device memory.
// Lanes are further groups with weights of their own: the two directions of a layer or, if STACKED,
// the layers of a stack. All blocks must be co-resident: the launch is cooperative.
//
// If x is the h of the layer below, in BELOW directions, W_ih is multiplied here as well, while
// this layer's h is in flight. The layers of a stack run concurrently as a wavefront, each as far
// ahead of the one above as it gets; otherwise the layer below has finished in an earlier launch.
//
// The h exchange is a mailbox without flags: its words are reset to EMPTY_SENTINEL, a bit pattern
// that no f16 result has, and a reader polls each word until it differs. Two consumer warpgroups
// compute products and cells. Producer warps load h to shared memory: by polling loads where there
// is little of it, by bulk copies (BULK) where there is much, which leave the memory pipes to the
// consumers.
//
// With 32 units each consumer warpgroup has 64 of the rows of weights. With 16 units (SPLIT) both
// have the same 64 rows: each multiplies every other k-step, so that the chain of dependent products
// is half as long and a layer spreads over twice as many multiprocessors. They then exchange sums
// through shared memory, and each computes the cells of half of the batch rows.
//
//   packed (lanes, N / UNITS, K_STEPS, 2, 128) 16 bytes each: weights as `pack_forward` orders them
//   bias (lanes, N, 4) f32
//   gates (S, B, N, 4) f16: x W_ih^T, replaced by what backward needs
//   h (S + 2, B, width) f16        c (S + 2, B, N) f16
//   h_exchange (S, lanes groups, N / 8, NB, 8) f16: h once more, in wgmma's operand layout
//   below (S, BELOW groups, N / 8, NB, 8) f16: the h exchange of the layer below
//
// N is n padded to a multiple of 32. gates, h and c of lane l begin l times gates_stride, h_stride
// and c_stride values further. There are two exchange buffers, used by passes alternately
// (exchange.cu). With TABLE, x W_ih^T is instead a row of table (lanes, symbols, N, 4).
//
// With FROM_STATES, sequences begin with given states, the reverse direction of each at its own
// end. First states of h are in the exchange in the place after the last step, and at both ends of
// h. The reverse direction holds them until the row begins; where else a row does not run, h is 0.
// First and last states of the cell (c, or h) are f32.
//
// t counts steps in processing order; s is the time step.

#ifndef FROM_STATES
#define FROM_STATES 0
#endif

static const u32 FIRST_PRODUCT = FROM_STATES ? 0 : 1; // first step whose h_{s-1} may not be zero
static const u32 BLOCKS = N / UNITS;
static const bool SPLIT = UNITS == 16; // both warpgroups multiply the same rows of weights
static const u32 SHARE = SPLIT ? 2 : 1; // a warpgroup multiplies one in so many k-steps
static const u32 SEGMENTS = BELOW + 1;                 // operands: own h, then those below
static const u32 SEGMENT_K_STEPS = N / (16 * SHARE);   // wgmma k-steps of one, 16 units of h each
static const u32 K_STEPS = SEGMENTS * SEGMENT_K_STEPS; // those of the segments below come first
static const u32 IN_REGISTERS = K_STEPS < REGISTER_K_STEPS ? K_STEPS : REGISTER_K_STEPS;
static const u32 IN_SHARED = K_STEPS - IN_REGISTERS;
static const u32 CHUNKS = (N + CHUNK - 1) / CHUNK; // CHUNK: units of h per mbarrier
static const u32 CHUNK_K_STEPS = CHUNK / (16 * SHARE);
static const u32 LOADS = CHUNK * NB / 256;         // 16-byte words of a chunk per producer thread
static const u32 COLUMNS = NB / 8 / SHARE;         // cells of a thread: one in each 8 rows
static const u32 PADDING = 8;                      // f16 after a row's units: spreads banks
static const u32 CONSUMER_THREADS = 256;           // PRODUCER_THREADS: as many, or half
static const u32 POOL = PRODUCER_THREADS == 128 ? 3 * 168 : 4 * 128; // registers, all warpgroups
static const u32 CONSUMER_REGISTERS = (POOL - PRODUCER_THREADS / 128 * PRODUCER_REGISTERS) / 2;
// Where a warp loads all of its h at once, polling before this block has sent its own h only delays
// the arrival of the others'.
static const bool LOAD_AFTER_SEND = !BULK && CHUNKS <= PRODUCER_THREADS / 32;
// Rows and slots are double-buffered, unless all consumer warps wait for each other before the cells
// too.
static const u32 BUFFERS = SPLIT ? 1 : 2;
static const u32 PIECES = UNITS / 8; // 16-byte words of a row's units

struct Shared {
    // By warpgroup: (16, 64); + 1: arrays must not be empty.
    u16 weights[SPLIT && IN_SHARED > 0 ? IN_SHARED : IN_SHARED + 1][2][1024];
    u16 h[SEGMENTS][N * NB]; // (N, NB), operand layout
#if UNITS == 16
    float4 sums[2][COLUMNS * 128]; // for each warpgroup, those of the other
#endif
    u16 rows[BUFFERS][2][NB][UNITS + PADDING];   // h or c: the block's units of each row
    u16 slots[BUFFERS][NB][UNITS * 4 + PADDING]; // what backward needs of them
    u16 table[TABLE + 1][UNITS][4];
    u64 full[SEGMENTS][CHUNKS], copied[SEGMENTS][CHUNKS], empty, empty_below, h_sent; // mbarriers
};
static_assert(sizeof(Shared) == SHARED, "must equal the size in persistent/tiling.rs");
static_assert(STACKED || BELOW * CHUNKS <= 32, "one warp copies a finished layer's h");
static_assert(!SPLIT || (NB % 16 == 0 && CHUNK % 32 == 0), "both warpgroups have a share");

// Loads one step's h to shared memory by polling loads. Each chunk belongs to one producer warp.
__device__ __forceinline__ void load_h(Shared& shared, u32 segment, const u16* from) {
    const u32 warp_lane = threadIdx.x % 32, producer = threadIdx.x / 32 - CONSUMER_THREADS / 32;
    for (u32 chunk = producer; chunk < CHUNKS; chunk += PRODUCER_THREADS / 32) {
        uint4 v[LOADS];
        auto at = [&](u32 i) { return chunk * CHUNK * NB + (i * 32 + warp_lane) * 8; };
        auto exists = [&](u32 i) { return N % CHUNK == 0 || at(i) < N * NB; };
#pragma unroll
        for (u32 i = 0; i < LOADS; i++) {
            v[i] = make_uint4(0, 0, 0, 0);
            if (exists(i)) v[i] = ld_relaxed_v4(from + at(i));
        }
        bool missing;
        do {
            missing = false;
#pragma unroll
            for (u32 i = 0; i < LOADS; i++) {
                if (any_empty(v[i])) v[i] = ld_relaxed_v4(from + at(i)), missing = true;
            }
        } while (missing);
#pragma unroll
        for (u32 i = 0; i < LOADS; i++) {
            if (exists(i)) *(uint4*)(shared.h[segment] + at(i)) = v[i];
        }
        fence_proxy_async_shared();
        __syncwarp();
        if (warp_lane == 0) mbarrier_arrive(shared_address(&shared.full[segment][chunk]));
    }
}

// The same by bulk copies. The warp polls the last word of each 4 units that a warp writes, copies
// the whole chunk when those have arrived, checks the copy, and copies again if any word of it is
// still empty.
//
// Why this is ordered and live without a proxy fence. Other blocks write h by relaxed stores
// through the generic proxy; a bulk copy reads it through the async proxy, and no fence.proxy.async
// stands between the two. So nothing orders the copy after the stores, and polling does not either:
// it is only a hint when a copy is worthwhile.
//
// Order: no order is needed, because no word vouches for another. During a launch a 32-bit word of
// the exchange changes once, from EMPTY_SENTINEL to its value; it was reset by an earlier launch,
// whose writes are ordered before this one starts. So a copied word is either the sentinel or the
// value, and the check of every word of the copy shows which. The check is ordered after the copy
// by the mbarrier (complete_tx). The consumers' wgmma reads shared memory through the async proxy,
// like the copy that wrote it, after the mbarrier `full`.
//
// Liveness: a copy that came too early is repeated, so progress only needs some later copy to see
// the store. Relaxed stores at gpu scope are performed in L2, and bulk copies read device memory
// from L2 rather than from a private cache, so every retry looks at L2 afresh.
//
// This goes beyond the letter of the PTX memory model, which promises no visibility across proxies
// without a fence, and does not call the pieces of a bulk copy single-copy atomic. It relies on
// the hardware: bulk copies read from L2 and do not tear aligned 32-bit words.
__device__ __forceinline__ void load_h_bulk(
    Shared& shared, u32 segment, const u16* from, u32& parities) {
    const u32 warp_lane = threadIdx.x % 32, producer = threadIdx.x / 32 - CONSUMER_THREADS / 32;
    auto values = [](u32 chunk) { return min(CHUNK, N - chunk * CHUNK) * NB; };
    auto copied = [&](u32 chunk) { return shared_address(&shared.copied[segment][chunk]); };
    auto copy = [&](u32 chunk) {
        u32 first = chunk * CHUNK * NB;
        if (warp_lane == 0) {
            bulk_copy_to_shared(
                shared_address(shared.h[segment] + first), from + first, 2 * values(chunk),
                copied(chunk));
        }
    };
    for (u32 chunk = producer; chunk < CHUNKS; chunk += PRODUCER_THREADS / 32) {
        // A warp writes 4 units of all rows, or of half of them.
        const u32 sample =
            (warp_lane / 8 * 4 + warp_lane % 8 / 2) * NB * 8 + (NB - 1) * 8 + warp_lane % 2 * 4;
        while (__any_sync(
            ~0u, sample < values(chunk) &&
                     ld_relaxed(from + chunk * CHUNK * NB + sample) == EMPTY_SENTINEL)) {
        }
        copy(chunk);
    }
    for (u32 chunk = producer; chunk < CHUNKS; chunk += PRODUCER_THREADS / 32) {
        for (;;) {
            const u32 bit = segment * CHUNKS + chunk;
            mbarrier_wait(copied(chunk), parities >> bit & 1);
            parities ^= 1 << bit;
            const u16* copy_of_chunk = shared.h[segment] + chunk * CHUNK * NB;
            bool late = false;
#pragma unroll 8
            for (u32 i = 0; i < LOADS; i++) {
                const u32 at = (i * 32 + warp_lane) * 8;
                if (N % CHUNK == 0 || at < values(chunk))
                    late |= any_empty(*(const uint4*)(copy_of_chunk + at));
            }
            if (!__any_sync(~0u, late)) break;
            copy(chunk);
        }
        if (warp_lane == 0) mbarrier_arrive(shared_address(&shared.full[segment][chunk]));
    }
}

// Copies one step's h of a layer below that finished in an earlier launch, so that nothing needs to
// be checked. Its directions are `direction_stride` values apart. The first threads of one warp
// copy a chunk each.
__device__ __forceinline__ void copy_finished(
    Shared& shared, const u16* from, u64 direction_stride) {
    const u32 segment = 1 + threadIdx.x % 32 / CHUNKS, chunk = threadIdx.x % 32 % CHUNKS;
    if (segment > BELOW) return;
    const u32 first = chunk * CHUNK * NB, bytes = 2 * min(CHUNK, N - chunk * CHUNK) * NB;
    const u32 full = shared_address(&shared.full[segment][chunk]);
    bulk_copy_to_shared(
        shared_address(shared.h[segment] + first), from + (segment - 1) * direction_stride + first,
        bytes, full);
}

// Accumulates the products of some segments; `first` is the number of their first k-step.
template <u32 first, u32 segments>
__device__ __forceinline__ void multiply(
    float (&sum)[SUMS], const u32 (&w)[IN_REGISTERS][4], u64 weights_at, u64 h_at, u32 full,
    u32 parity) {
    u32 weights_low = (u32)weights_at;
    opaque(weights_low);
    u32 h_low = (u32)h_at;
    if (SPLIT) opaque(h_low);
    wgmma_fence_operand(sum);
#pragma unroll
    for (u32 at = 0; at < segments * SEGMENT_K_STEPS; at++) {
        if (at % SEGMENT_K_STEPS % CHUNK_K_STEPS == 0) {
            mbarrier_wait(
                full + 8 * (at / SEGMENT_K_STEPS * CHUNKS + at % SEGMENT_K_STEPS / CHUNK_K_STEPS),
                parity);
            wgmma_fence();
        }
        const u32 k_step = first + at;
        // A uniform descriptor plus a constant: one instruction, in the place where wgmma reads it.
        const u64 b = SPLIT ? with_low_word(h_at, h_low + at * 2 * NB * SHARE) : h_at + at * 2 * NB;
        if (k_step < IN_REGISTERS) wgmma(sum, w[k_step], b, 1);
        else
            wgmma(
                sum, with_low_word(weights_at, weights_low + (k_step - IN_REGISTERS) * 256), b, 1);
    }
    wgmma_commit();
    wgmma_wait<0>();
    wgmma_fence_operand(sum);
}

// Adds up the sums of both warpgroups: a thread keeps those of its own rows, the first COLUMNS of
// `sum` after this, and gives the others to the same thread of the other warpgroup. An addition of
// two numbers has no order, so the result is reproducible.
#if UNITS == 16
__device__ __forceinline__ void exchange_sums(Shared& shared, float (&sum)[SUMS], u32 warpgroup) {
    const u32 thread = threadIdx.x % 128;
#pragma unroll
    for (u32 j = 0; j < COLUMNS; j++) {
        float give[4];
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            const float first = sum[4 * j + i], second = sum[4 * (COLUMNS + j) + i];
            give[i] = warpgroup ? first : second;
            sum[4 * j + i] = warpgroup ? second : first;
        }
        shared.sums[1 - warpgroup][j * 128 + thread] =
            make_float4(give[0], give[1], give[2], give[3]);
    }
    named_barrier_sync<CONSUMER_THREADS>();
#pragma unroll
    for (u32 j = 0; j < COLUMNS; j++) {
        const float4 got = shared.sums[warpgroup][j * 128 + thread];
        sum[4 * j] += got.x, sum[4 * j + 1] += got.y;
        sum[4 * j + 2] += got.z, sum[4 * j + 3] += got.w;
    }
}
#else
__device__ __forceinline__ void exchange_sums(Shared&, float (&)[SUMS], u32) {}
#endif

#if FROM_STATES
extern "C" __global__ void __launch_bounds__(CONSUMER_THREADS + PRODUCER_THREADS, 1)
persistent_forward_from_states(const __grid_constant__ PersistentForwardFromStates p)
#else
extern "C" __global__ void __launch_bounds__(CONSUMER_THREADS + PRODUCER_THREADS, 1)
persistent_forward(const __grid_constant__ PersistentForward p)
#endif
{
    Shared& shared = *(Shared*)dynamic_shared();
    const u32 groups = p.groups, steps = p.steps, rows = p.rows, symbols = p.symbols;
    const u32 block = blockIdx.x % BLOCKS, group = blockIdx.x / BLOCKS % groups;
    const u32 lane_id = blockIdx.x / BLOCKS / groups; // of the recurrence
    const u32 warp = threadIdx.x / 32, warp_lane = threadIdx.x % 32;
    const u32 row0 = p.first_row + group * NB; // first row of the batch
    const bool reads_below = STACKED ? lane_id > 0 : BELOW > 0, reverse = !STACKED && lane_id > 0;
    const u32 full = shared_address(shared.full),
              full_below = shared_address(shared.full[BELOW > 0]);
    const u32 empty = shared_address(&shared.empty),
              empty_below = shared_address(&shared.empty_below);
    const u32 h_sent = shared_address(&shared.h_sent);
    const uint4* const packed = p.packed + ((u64)lane_id * BLOCKS + block) * K_STEPS * 256;
    const bool odd_pass = *p.parity & 1;
    const u16* const below = odd_pass ? p.below_odd : p.below_even;
    u16* h_exchange = odd_pass ? p.h_exchange_odd : p.h_exchange_even;
    h_exchange += (u64)(lane_id * groups + group) * N * NB;
    const u64 step_stride = (u64)p.lanes * groups * N * NB; // of h_exchange
    auto step = [&](u32 t) { return reverse ? steps - 1 - t : t; };

    for (u32 i = threadIdx.x; i < IN_SHARED * 256; i += blockDim.x) {
        ((uint4*)shared.weights)[i] = packed[IN_REGISTERS * 256 + i];
    }
    const u32 words = UNITS / 2; // of a symbol's row of the table
    for (u32 i = threadIdx.x; TABLE && !reads_below && i < symbols * words; i += blockDim.x) {
        const u64 row = (u64)lane_id * symbols + i / words;
        ((uint4*)shared.table)[i] =
            ((const uint4*)p.table)[row * (N / 2) + block * words + i % words];
    }
    if (threadIdx.x == 0) {
        for (u32 i = 0; i < 2 * SEGMENTS * CHUNKS; i++)
            mbarrier_init(full + 8 * i, 1); // and `copied`
        mbarrier_init(empty, CONSUMER_THREADS / 32);
        mbarrier_init(empty_below, CONSUMER_THREADS / 32);
        mbarrier_init(h_sent, CONSUMER_THREADS / 32);
    }
    fence_proxy_async();
    __syncthreads();

    if (warp >= CONSUMER_THREADS / 32) { // producer warps
        warpgroup_reg_dealloc<PRODUCER_REGISTERS>();
        // A warp without a chunk must not wait on mbarriers: nothing waits for it in return, so it
        // could lag by two phases, and then the parity would look as if the phase had not
        // come.
        if (warp - CONSUMER_THREADS / 32 >= CHUNKS) return;
        u32 parities = 0; // of `copied`, by segment and chunk
        auto load = [&](u32 segment, const u16* from) {
            if (BULK) load_h_bulk(shared, segment, from, parities);
            else load_h(shared, segment, from);
        };
        // The layers of a stack share one exchange buffer. A layer that has finished is only
        // copied.
        const u64 group_values = (u64)N * NB;
        const u64 below_step_stride = STACKED ? step_stride : BELOW * groups * group_values;
        const u16* from_below =
            STACKED ? h_exchange - groups * group_values : below + group * group_values;
        auto load_below = [&](u32 t) {
            const u16* at_step = from_below + step(t) * below_step_stride;
            if (STACKED) load(1, at_step);
            else copy_finished(shared, at_step, groups * group_values);
        };
        // For the same reason only the warp that copies waits for `empty_below`.
        const bool loads_below = reads_below && (STACKED || warp == CONSUMER_THREADS / 32);
        if (loads_below) load_below(0);
        for (u32 t = 0; t < steps; t++) {
            if (t > FIRST_PRODUCT) mbarrier_wait(empty, t + FIRST_PRODUCT + 1 & 1);
            if (LOAD_AFTER_SEND && t > 0) mbarrier_wait(h_sent, t - 1 & 1);
            if (t >= FIRST_PRODUCT)
                load(0, h_exchange + (t > 0 ? step(t - 1) : steps) * step_stride);
            // Prefetch: the layer below is ahead, so its h is there before it is needed.
            if (loads_below && t + 1 < steps) {
                mbarrier_wait(empty_below, t & 1);
                // Not every thread copies: without this one that does not could still wait here
                // when the consumers complete the next phase, and miss this one.
                __syncwarp();
                load_below(t + 1);
            }
        }
        return;
    }

    // Consumer warps.
    warpgroup_reg_alloc<CONSUMER_REGISTERS>();
    const u32 warpgroup = warp / 4, g = warp_lane / 4, q = warp_lane % 4, odd = g & 1;
    const u32 own = (SPLIT ? 0 : warpgroup * 16) + warp % 4 * 4 + g / 2; // its unit
    const u32 unit = block * UNITS + own;
    const u32 own_rows = SPLIT ? warpgroup * (NB / 2) : 0; // the first row of its cells
    u32 w[IN_REGISTERS][4];
#pragma unroll
    for (u32 k_step = 0; k_step < IN_REGISTERS; k_step++) {
        uint4 v = packed[(k_step * 2 + warpgroup) * 128 + threadIdx.x % 128];
        w[k_step][0] = v.x, w[k_step][1] = v.y, w[k_step][2] = v.z, w[k_step][3] = v.w;
    }
    // A thread's accumulators are two slots of its unit in rows 2q and 2q + 1 of each 8: slots 0
    // and 1 for even g, 2 and 3 for odd g.
    const float2 own_bias = *(const float2*)(p.bias + ((u64)lane_id * N + unit) * 4 + 2 * odd);
    // After the exchange with its neighbour it has all four slots in row 2q + odd.
    const u32 row_in = own_rows + 2 * q + odd;
#if FROM_STATES
    // Of a row, in arrays of the caller's.
    auto state_at = [&](u32 row) { return ((u64)lane_id * rows + row) * p.n + unit; };
#endif
    float state[COLUMNS];
    u32 row_length[COLUMNS]; // steps of the row's sequence
#pragma unroll
    for (u32 j = 0; j < COLUMNS; j++) {
        u32 row = row0 + 8 * j + row_in;
        state[j] = 0;
        row_length[j] = row < rows ? p.run[row] : 0;
#if FROM_STATES
        if (p.first && row < rows && unit < p.n) state[j] = p.first[state_at(row)];
#endif
    }
    u16* const gates = p.gates + p.gates_stride * lane_id + (u64)unit * 4;
    // h and c have a step of zeros before the first and after the last.
    u16* const h = p.h + p.h_stride * lane_id + (u64)row0 * p.width + block * UNITS;
    u16* const c = p.c + p.c_stride * lane_id + (u64)row0 * N + block * UNITS;
#if !FROM_STATES
    // The block writes its own part of those.
    for (u32 i = threadIdx.x; i < 2 * NB * PIECES; i += CONSUMER_THREADS) {
        const u32 row = i / PIECES % NB, piece = i % PIECES * 8;
        if (row0 + row >= rows) continue;
        const u64 to = (u64)(i / (NB * PIECES) ? steps + 1 : 0) * rows + row;
        *(uint4*)(h + to * p.width + piece) = make_uint4(0, 0, 0, 0);
        if (p.save) *(uint4*)(c + to * N + piece) = make_uint4(0, 0, 0, 0);
    }
#else
    // The reverse direction holds h from the step before the first one.
#pragma unroll
    for (u32 j = 0; j < COLUMNS; j++) {
        const u64 end = (u64)(steps + 1) * rows + 8 * j + row_in;
        const bool real = row0 + 8 * j + row_in < rows;
        shared.rows[BUFFERS - 1][0][8 * j + row_in][own] = real ? h[end * p.width + own] : 0;
    }
#endif
    // A warp sends 4 units of each row that it has.
    u16* const send_to =
        h_exchange + ((block * PIECES + own / 8) * NB * 8 + own_rows * 8 + own / 4 % 2 * 4);
    // Input of the next step, prefetched to registers for rows 2q and 2q + 1: a symbol, or two
    // slots.
    u32 from_x[COLUMNS][2];
    auto prefetch_x = [&](u32 t) {
#pragma unroll
        for (u32 j = 0; j < COLUMNS; j++)
#pragma unroll
            for (u32 e = 0; e < 2; e++) {
                u32 row = row0 + own_rows + 8 * j + 2 * q + e;
                u64 position = (u64)step(t) * rows + row;
                from_x[j][e] = TABLE ? NONE : 0;
                if (row >= rows || t >= steps || reads_below) continue;
                from_x[j][e] =
                    TABLE ? p.tokens[position] : *(const u32*)(gates + position * N * 4 + 2 * odd);
            }
    };
    prefetch_x(0);
    const u64 weights_at = matrix_descriptor(shared_address(shared.weights[0][warpgroup]), 64);
    // If SPLIT, warpgroup 0 has the even k-steps, warpgroup 1 the odd ones.
    const u64 own_k_step = SPLIT ? __shfl_sync(~0u, warpgroup, 0) * 2 * NB : 0;

    for (u32 t = 0; t < steps; t++) {
        const u32 s = step(t);
        float sum[SUMS];
        auto add_x = [&](const bool to_zero) {
#pragma unroll
            for (u32 j = 0; j < COLUMNS; j++)
#pragma unroll
                for (u32 e = 0; e < 2; e++) {
                    u32 two = from_x[j][e];
                    if (TABLE)
                        two = two < symbols ? *(const u32*)&shared.table[two][own][2 * odd] : 0;
                    const float first = low(two) + own_bias.x, second = high(two) + own_bias.y;
                    sum[4 * j + e] = to_zero ? first : sum[4 * j + e] + first;
                    sum[4 * j + 2 + e] = to_zero ? second : sum[4 * j + 2 + e] + second;
                }
        };
        if (!SPLIT) add_x(true);
        else {
#pragma unroll
            for (u32 i = 0; i < SUMS; i++) sum[i] = 0;
        }
        if (reads_below) {
            const u64 below_at =
                matrix_descriptor(shared_address(shared.h[BELOW > 0]), NB) + own_k_step;
            multiply<0, BELOW>(sum, w, weights_at, below_at, full_below, t & 1);
            __syncwarp();
            if (warp_lane == 0) mbarrier_arrive(empty_below);
        }
        if (t >= FIRST_PRODUCT) {
            const u64 h_at = matrix_descriptor(shared_address(shared.h[0]), NB) + own_k_step;
            multiply<BELOW * SEGMENT_K_STEPS, 1>(
                sum, w, weights_at, h_at, full, t - FIRST_PRODUCT & 1);
            __syncwarp();
            if (warp_lane == 0) mbarrier_arrive(empty);
        }
        if (SPLIT) {
            exchange_sums(shared, sum, warpgroup);
            add_x(false);
        }
        // Epilogue: the cells.
        const u32 buffer = t % BUFFERS;
        auto &h_rows = shared.rows[buffer][0], &c_rows = shared.rows[buffer][1];
        // Compiled twice, so that `save` is not tested for every cell.
        auto compute_cells = [&](const bool saves) {
#pragma unroll
            for (u32 j = 0; j < COLUMNS; j++) {
                // Neighbours exchange: each keeps one row and gives the other away.
                float give0 = odd ? sum[4 * j] : sum[4 * j + 1],
                      give1 = odd ? sum[4 * j + 2] : sum[4 * j + 3];
                float got0 = __shfl_xor_sync(~0u, give0, 4), got1 = __shfl_xor_sync(~0u, give1, 4);
                float slots[4] = {
                    odd ? got0 : sum[4 * j], odd ? got1 : sum[4 * j + 2],
                    odd ? sum[4 * j + 1] : got0, odd ? sum[4 * j + 3] : got1};
                float h_new = 0;
                if (s < row_length[j]) h_new = cell_forward(slots, state[j]);
#if FROM_STATES
                else {
                    slots[0] = slots[1] = slots[2] = slots[3] = 0;
                    // As in the step before: the thread's own value.
                    if (reverse)
                        h_new = half_to_float(
                            shared.rows[(t + 1) % BUFFERS][0][8 * j + row_in][own]);
                }
#else
                else slots[0] = slots[1] = slots[2] = slots[3] = state[j] = 0;
#endif
                h_rows[8 * j + row_in][own] = half(h_new);
                c_rows[8 * j + row_in][own] = half(state[j]);
                if (saves) {
                    const uint2 packed_slots =
                        make_uint2(pack(slots[0], slots[1]), pack(slots[2], slots[3]));
                    *(uint2*)&shared.slots[buffer][8 * j + row_in][own * 4] = packed_slots;
                }
            }
        };
        if (p.save) compute_cells(true);
        else compute_cells(false);
        __syncwarp();
        // The h exchange comes first: other blocks wait for it.
#pragma unroll
        for (u32 row = warp_lane; row < NB / SHARE; row += 32) {
            st_relaxed_v2(
                send_to + s * step_stride + row * 8,
                *(const uint2*)&h_rows[own_rows + row][own / 4 * 4]);
        }
        if (LOAD_AFTER_SEND) {
            __syncwarp();
            if (warp_lane == 0) mbarrier_arrive(h_sent);
        }
        prefetch_x(t + 1);
        // All consumer warps have written this step's rows, and read those of the step before.
        named_barrier_sync<CONSUMER_THREADS>();
#pragma unroll
        for (u32 i = threadIdx.x; i < 2 * NB * PIECES; i += CONSUMER_THREADS) {
            const u32 which = i / (NB * PIECES), row = i / PIECES % NB, piece = i % PIECES * 8;
            if (row0 + row >= rows || which > p.save) continue;
            u64 to = (u64)(s + 1) * rows + row;
            *(uint4*)(which ? c + to * N + piece : h + to * p.width + piece) =
                *(const uint4*)&shared.rows[buffer][which][row][piece];
        }
        if (!p.save) continue;
#pragma unroll
        for (u32 i = threadIdx.x; i < NB * PIECES * 4; i += CONSUMER_THREADS) {
            const u32 row = i / (PIECES * 4), piece = i % (PIECES * 4) * 8;
            if (row0 + row >= rows) break;
            u64 to = (u64)s * rows + row0 + row;
            *(uint4*)(gates + to * N * 4 - own * 4 + piece) =
                *(const uint4*)&shared.slots[buffer][row][piece];
        }
    }
#if FROM_STATES
#pragma unroll
    for (u32 j = 0; j < COLUMNS; j++) {
        const u32 row = row0 + 8 * j + row_in;
        if (p.last && row < rows && unit < p.n) p.last[state_at(row)] = state[j];
    }
#endif
}
