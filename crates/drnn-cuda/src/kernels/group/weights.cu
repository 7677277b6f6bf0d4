// Gradients of all weights of a lane's direction: (d images)^T (h images), summed over rows and steps, image after image.
//
// A block has some columns of the d images, up to 256, and all of the h images; IN_TURN pairs of
// images in shared memory take turns.

static const u32 SHARES = (D_GROUPS + 31) / 32, SHARE = (D_GROUPS + SHARES - 1) / SHARES; // blocks; groups of each
static const u32 CREWS = (SHARE + 7) / 8;                                                // 64 columns each
static const u32 D_PART = SHARE * GROUP, H_PART = 7 * N_PARTS * GROUP;                   // with groups that are not there

__device__ __forceinline__ void fetch(u32 to, const u8* from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}

extern "C" __global__ void __launch_bounds__(128 * CREWS, 1) group_weights(
    const Task* tasks, const Progress* progress, const u8* h_images, const u8* d_images, float* products, u32 images, u32 chunks) {
    const u32 who = blockIdx.x / SHARES, owner = who / DIRECTIONS, thread = threadIdx.x; // shares together: both read h
    if (!at_work(tasks[owner], progress[owner])) return;
    extern __shared__ __align__(128) u8 shared[];
    __shared__ __align__(8) u64 arrived[IN_TURN];
    const u32 first_group = blockIdx.x % SHARES * SHARE, groups = min(SHARE, D_GROUPS - first_group), count = images * chunks;
    const u32 begin = shared_address(shared);
    const u8* const from_h = h_images + (u64)who * count * H_IMAGE;
    const u8* const from_d = d_images + (u64)who * count * D_IMAGE + first_group * GROUP;
    auto bring = [&](u32 i) {
        const u32 to = begin + i % IN_TURN * (D_PART + H_PART), barrier = shared_address(&arrived[i % IN_TURN]);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(groups * GROUP + H_IMAGE)
                     : "memory");
        fetch(to, from_d + (u64)i * D_IMAGE, groups * GROUP, barrier);
        fetch(to + D_PART, from_h + (u64)i * H_IMAGE, H_IMAGE, barrier);
    };
    // Groups that no image has are multiplied too, into products that nobody reads.
    if (thread == 0) {
        for (u32 i = 0; i < IN_TURN; i++)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(&arrived[i])) : "memory");
        shown();
        for (u32 i = 0; i < IN_TURN && i < count; i++) bring(i);
    }
    __syncthreads();

    const u32 crew = thread / 128;
    const u64 a = descriptor(begin + crew * 8 * GROUP, 128, GROUP);
    const u64 b = descriptor(begin + D_PART, 128, GROUP);
    float sums[N_PARTS][28];
#pragma unroll
    for (u32 i = 0; i < N_PARTS * 28; i++) sums[i / 28][i % 28] = 0;
    for (u32 i = 0; i < count; i++) {
        const u32 barrier = shared_address(&arrived[i % IN_TURN]), phase = i / IN_TURN % 2;
        asm volatile(
            "{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n@p bra done;\nbra again;\ndone:\n}" ::"r"(
                barrier),
            "r"(phase)
            : "memory");
        products_begin();
#pragma unroll
        for (u32 depth = 0; depth < HEIGHT / 16; depth++)
#pragma unroll
            for (u32 part = 0; part < N_PARTS; part++) {
                const u32 at = i % IN_TURN * (D_PART + H_PART) + depth * 256;
                multiply<1>(sums[part], further(a, at), further(b, at + part * 7 * GROUP), 1);
            }
        products_begun();
#pragma unroll
        for (u32 part = 0; part < N_PARTS; part++) products_done<0>(sums[part]);
        __syncthreads(); // all have read it
        if (thread == 0 && i + IN_TURN < count) bring(i + IN_TURN);
    }
    const u32 warp = thread / 32 % 4, g = thread % 32 / 4, q = thread % 4;
    products += ((u64)who * D_GROUPS + first_group) * 8 * D_WIDTH;
#pragma unroll
    for (u32 i = 0; i < N_PARTS * 14; i++) {
        const u32 part = i / 14, j = i % 14 / 2, e = i % 2;
        const u32 row = 64 * crew + 16 * warp + g + 8 * e, column = part * HALF + 8 * j + 2 * q;
        const float* sum = &sums[part][4 * j + 2 * e];
        if (row < 8 * groups) *(float2*)(products + (u64)row * D_WIDTH + column) = make_float2(sum[0], sum[1]);
    }
}
