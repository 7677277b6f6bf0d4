// What blocks of a large recurrence told each other in a pass is forgotten while the next one runs: there are two places for it,
// which passes take in turn. `turn` says whose it is, in its lowest bit.

// Blocks are short: a recurrence that waits for their multiprocessors need not wait long.
static const u32 EACH = 8; // 16 bytes, of a thread

// Fills `count` times 16 bytes, the place that this pass does not tell in, with SENTINEL of hopper.cuh.
extern "C" __global__ void forget(uint4* even, uint4* odd, const u32* turn, u32 count) {
    uint4* const other = *turn & 1 ? even : odd;
    for (u32 i = 0; i < EACH; i++) {
        const u32 at = (blockIdx.x * EACH + i) * blockDim.x + threadIdx.x;
        if (at < count) __stcs(other + at, make_uint4(~0u, ~0u, ~0u, ~0u)); // h is rather to stay in the cache
    }
}

// Nobody of this pass looks at it any more.
extern "C" __global__ void next_turn(u32* turn) { *turn += 1; }
