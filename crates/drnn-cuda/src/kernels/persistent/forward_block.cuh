// A block of persistent/forward.cu: its sizes, its shared memory, and how producer warps load h.

#ifndef FROM_STATES
#define FROM_STATES 0
#endif

static const u32 FIRST_PRODUCT = FROM_STATES ? 0 : 1; // first step whose h_{s-1} may not be zero
static const u32 BLOCKS = N / UNITS;
static const bool SPLIT = UNITS == 16;                 // warpgroups share k-steps, not units
static const u32 SHARE = SPLIT ? 2 : 1;                // a warpgroup has one in so many k-steps
static const u32 SEGMENTS = BELOW + 1;                 // operands: own h, then those below
static const u32 SEGMENT_K_STEPS = N / (16 * SHARE);   // wgmma k-steps of one, 16 units of h each
static const u32 K_STEPS = SEGMENTS * SEGMENT_K_STEPS; // those of the segments below come first
static const u32 IN_REGISTERS = K_STEPS < REGISTER_K_STEPS ? K_STEPS : REGISTER_K_STEPS;
static const u32 IN_SHARED = K_STEPS - IN_REGISTERS;
static const u32 CHUNKS = (N + CHUNK - 1) / CHUNK; // CHUNK: units of h per mbarrier
static const u32 CHUNK_K_STEPS = CHUNK / (16 * SHARE);
static const u32 LOADS = CHUNK * NB / 256; // 16-byte words of a chunk per producer thread
static const u32 COLUMNS = NB / 8 / SHARE; // cells of a thread: one in each 8 rows
static const u32 PADDING = 8;              // f16 after a row's units: spreads banks
static const u32 CONSUMER_THREADS = 256;   // PRODUCER_THREADS: as many, or half
static const u32 POOL = PRODUCER_THREADS == 128 ? 3 * 168 : 4 * 128; // registers, all warpgroups
static const u32 CONSUMER_REGISTERS = (POOL - PRODUCER_THREADS / 128 * PRODUCER_REGISTERS) / 2;
// Where a warp loads all of its h at once, polling before this block has sent its own h only delays
// the arrival of the others'.
static const bool LOAD_AFTER_SEND = !BULK && CHUNKS <= PRODUCER_THREADS / 32;
// Rows and slots are double-buffered, unless all consumer warps wait for each other before the
// cells too.
static const u32 BUFFERS = SPLIT ? 1 : 2;
static const u32 PIECES = UNITS / 8; // 16-byte words of a row's units
static const u32 AHEAD = 2;          // with PREFETCH: steps
static const u32 LINE = 64;          // f16 of a line of L2

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
static_assert(sizeof(Shared) == SHARED, "must equal the size in persistent/spec.rs");
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
        auto is_empty = [&](u32 at) {
            return ld_relaxed(from + chunk * CHUNK * NB + at) == EMPTY_SENTINEL;
        };
        while (__any_sync(
            ~0u, sample < values(chunk) &&
                     (is_empty(sample) || SPLIT && is_empty(sample - NB / 2 * 8)))) {
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

// Prefetches to L2 what this block will read and write AHEAD steps later: its slots in `gates`
// (rows, of N units with 4 slots each), if it has any, and its part of the h exchange. Both were
// written long ago and lie in device memory, whose latency a step would wait for. Producer warps do
// this while the consumers multiply.
__device__ __forceinline__ void prefetch(const u16* gates, u32 rows, const u16* h_exchange) {
    const u32 warps = CHUNKS < PRODUCER_THREADS / 32 ? CHUNKS : PRODUCER_THREADS / 32;
    const u32 of_row = 4 * UNITS / LINE, gate_lines = gates ? min(rows, NB) * of_row : 0;
    const u32 lines = gate_lines + UNITS * NB / LINE;
#pragma unroll 1
    for (u32 i = threadIdx.x - CONSUMER_THREADS; i < lines; i += 32 * warps) {
        const u32 own = i - gate_lines;
        if (i < gate_lines) prefetch_l2(gates + (u64)(i / of_row) * N * 4 + i % of_row * LINE);
        else prefetch_l2(h_exchange + own * LINE);
    }
}
