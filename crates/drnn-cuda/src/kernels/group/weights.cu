// Gradients of all weights of one direction of a lane: (d images)^T (h images), summed over rows
// and steps, image after image.
//
// A block has up to 256 columns of the d images and all columns of the h images. Pairs of images
// flow through a pipeline of STAGES buffers in shared memory, filled by bulk copies.

static const u32 SHARES = (D_GROUPS + 31) / 32;            // blocks per recurrence
static const u32 SHARE = (D_GROUPS + SHARES - 1) / SHARES; // column groups of each
static const u32 WARPGROUPS = (SHARE + 7) / 8;             // 64 columns each
static const u32 D_STAGE = SHARE * GROUP_BYTES;            // bytes of a stage, with padding
static const u32 H_STAGE = 7 * COLUMN_TILES * GROUP_BYTES;

__device__ __forceinline__ void bulk_copy_to_shared(
    u32 to, const u8* from, u32 bytes, u32 mbarrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(to),
        "l"(from), "r"(bytes), "r"(mbarrier)
        : "memory");
}

extern "C" __global__ void __launch_bounds__(128 * WARPGROUPS, 1)
group_weights(const GroupWeights p) {
    // Shares of a recurrence are adjacent blocks: they read the same h images.
    const u32 recurrence = blockIdx.x / SHARES, lane_id = recurrence / DIRECTIONS,
              thread = threadIdx.x;
    if (!has_batch(p.tasks[lane_id], p.progress[lane_id])) return;
    extern __shared__ __align__(128) u8 shared[];
    __shared__ __align__(8) u64 full[STAGES];
    const u32 first_group = blockIdx.x % SHARES * SHARE,
              groups = min(SHARE, D_GROUPS - first_group);
    const u32 count = p.images * p.chunks, begin = shared_address(shared);
    const u8* const from_h = p.h_images + (u64)recurrence * count * H_IMAGE;
    const u8* const from_d =
        p.d_images + (u64)recurrence * count * D_IMAGE + first_group * GROUP_BYTES;
    auto load = [&](u32 i) {
        const u32 to = begin + i % STAGES * (D_STAGE + H_STAGE),
                  mbarrier = shared_address(&full[i % STAGES]);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(mbarrier),
                     "r"(groups * GROUP_BYTES + H_IMAGE)
                     : "memory");
        bulk_copy_to_shared(to, from_d + (u64)i * D_IMAGE, groups * GROUP_BYTES, mbarrier);
        bulk_copy_to_shared(to + D_STAGE, from_h + (u64)i * H_IMAGE, H_IMAGE, mbarrier);
    };
    // Column groups of a stage that no image fills are multiplied too: their products are never
    // read.
    if (thread == 0) {
        for (u32 i = 0; i < STAGES; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&full[i]))
                         : "memory");
        fence_proxy_async_shared();
        for (u32 i = 0; i < STAGES && i < count; i++) load(i);
    }
    __syncthreads();

    const u32 warpgroup = thread / 128;
    const u64 a = descriptor(begin + warpgroup * 8 * GROUP_BYTES, 128, GROUP_BYTES);
    const u64 b = descriptor(begin + D_STAGE, 128, GROUP_BYTES);
    float sums[COLUMN_TILES][28];
#pragma unroll
    for (u32 i = 0; i < COLUMN_TILES * 28; i++) sums[i / 28][i % 28] = 0;
    for (u32 i = 0; i < count; i++) {
        const u32 mbarrier = shared_address(&full[i % STAGES]), phase = i / STAGES % 2;
        asm volatile(
            "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
            "@p bra done;\nbra again;\ndone:\n}" ::"r"(mbarrier),
            "r"(phase)
            : "memory");
        wgmma_fence();
#pragma unroll
        for (u32 k_step = 0; k_step < HEIGHT / 16; k_step++)
#pragma unroll
            for (u32 tile = 0; tile < COLUMN_TILES; tile++) {
                const u32 at = i % STAGES * (D_STAGE + H_STAGE) + k_step * 256;
                wgmma<1>(sums[tile], advance(a, at), advance(b, at + tile * 7 * GROUP_BYTES), 1);
            }
        wgmma_commit();
#pragma unroll
        for (u32 tile = 0; tile < COLUMN_TILES; tile++) wgmma_wait<0>(sums[tile]);
        __syncthreads(); // all warpgroups have read the stage
        if (thread == 0 && i + STAGES < count) load(i + STAGES);
    }
    const u32 warp = thread / 32 % 4, g = thread % 32 / 4, q = thread % 4;
    float* const products = p.products + ((u64)recurrence * D_GROUPS + first_group) * 8 * DW_WIDTH;
#pragma unroll
    for (u32 i = 0; i < COLUMN_TILES * 14; i++) {
        const u32 tile = i / 14, j = i % 14 / 2, e = i % 2;
        const u32 row = 64 * warpgroup + 16 * warp + g + 8 * e,
                  column = tile * TILE_ROWS + 8 * j + 2 * q;
        const float* sum = &sums[tile][4 * j + 2 * e];
        if (row < 8 * groups) {
            *(float2*)(products + (u64)row * DW_WIDTH + column) = make_float2(sum[0], sum[1]);
        }
    }
}
