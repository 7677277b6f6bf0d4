// The h exchange between the blocks of a persistent recurrence is double-buffered across passes: a
// pass writes into one buffer while this kernel resets the other one, which the pass before used.
// The lowest bit of `parity` says which buffer belongs to the current pass.

// 16-byte stores per thread. Blocks are short, so that a recurrence whose blocks need all
// multiprocessors is not delayed for long.
static const u32 STORES = 8;

// Fills the `count` times 16 bytes of the buffer that the current pass does not use with
// EMPTY_SENTINEL of hopper.cuh.
extern "C" __global__ void reset_exchange(const ResetExchange p) {
    uint4* const idle = *p.parity & 1 ? p.even : p.odd;
    for (u32 i = 0; i < STORES; i++) {
        const u32 at = (blockIdx.x * STORES + i) * blockDim.x + threadIdx.x;
        // Evict-first: the L2 cache is for h.
        if (at < p.count) __stcs(idle + at, make_uint4(~0u, ~0u, ~0u, ~0u));
    }
}

// Swaps the buffers. Runs after the last read of the current pass.
extern "C" __global__ void flip_exchange(const FlipExchange p) { *p.parity += 1; }
