// Hopper's instructions for persistent recurrences: wgmma products of a warpgroup (128 threads),
// mbarriers and bulk copies in shared memory, and accesses to words that other blocks write while
// this one runs. Needs common.cuh before it, and NB: the columns of a product, 16 to 64.

static const u32 SUMS = NB / 2; // accumulators of a (64, NB) product that a thread holds

// ---- words that other blocks write

__device__ __forceinline__ u32 ld_relaxed(const void* p) {
    u32 v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ uint2 ld_relaxed_v2(const void* p) {
    uint2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];"
                 : "=r"(v.x), "=r"(v.y)
                 : "l"(p)
                 : "memory");
    return v;
}
__device__ __forceinline__ uint4 ld_relaxed_v4(const void* p) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
__device__ __forceinline__ void st_relaxed_v2(void* p, uint2 v) {
    asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y)
                 : "memory");
}
// Prefetches a line to L2, where a later access finds it.
__device__ __forceinline__ void prefetch_l2(const void* p) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(p));
}
// A counter that publishes all accesses before it.
__device__ __forceinline__ u32 ld_acquire(const void* p) {
    u32 v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void st_release(void* p, u32 v) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// An empty word of an exchange buffer: two f16 NaNs with a payload that no instruction produces.
static const u32 EMPTY_SENTINEL = 0xffffffffu;
__device__ __forceinline__ bool any_empty(uint4 v) {
    return v.x == EMPTY_SENTINEL || v.y == EMPTY_SENTINEL || v.z == EMPTY_SENTINEL ||
           v.w == EMPTY_SENTINEL;
}

// ---- mbarriers and bulk copies, by shared-memory address

__device__ __forceinline__ void mbarrier_init(u32 mbarrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(mbarrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void mbarrier_arrive(u32 mbarrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(mbarrier) : "memory");
}
__device__ __forceinline__ void mbarrier_wait(u32 mbarrier, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN%=:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
        "@done bra DONE%=;\nbra AGAIN%=;\nDONE%=:\n}" ::"r"(mbarrier),
        "r"(parity)
        : "memory");
}
// Starts a bulk copy from device memory; its completion counts as one arrival at the mbarrier.
//
// The source address is opaque to the compiler: where NVRTC 13.0 can prove that the sources of two
// copies differ by a warp-uniform number of bytes, it gives the second one a zero upper half.
__device__ __forceinline__ void bulk_copy_to_shared(
    u32 to, const void* from, u32 bytes, u32 mbarrier) {
    asm volatile("" : "+l"(from));
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(mbarrier), "r"(bytes)
                 : "memory");
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::
            "r"(to),
        "l"(from), "r"(bytes), "r"(mbarrier)
        : "memory");
}
// Makes this thread's stores to shared memory visible to the async proxy, through which wgmma and
// bulk copies access it. The form without `.shared::cta` also waits for all of device memory: it is
// used only once, before the first step.
__device__ __forceinline__ void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ __forceinline__ void fence_proxy_async() {
    asm volatile("fence.proxy.async;" ::: "memory");
}

// ---- threads and registers

// A warpgroup releases registers to the block's pool, or takes some from it, up to `registers` per
// thread.
template <u32 registers>
__device__ __forceinline__ void warpgroup_reg_dealloc() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}
template <u32 registers>
__device__ __forceinline__ void warpgroup_reg_alloc() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}
// Barrier of the block's first `threads` threads only.
template <u32 threads>
__device__ __forceinline__ void named_barrier_sync() {
    asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory");
}
// Hides a value from the compiler, which would otherwise precompute all descriptors and spill them.
__device__ __forceinline__ void opaque(u32& value) { asm volatile("" : "+r"(value)); }

// ---- products of a warpgroup: d (64, NB) += a (64, 16) b (16, NB)
//
// Operands in shared memory are stored in core matrices of 8 rows by 16 bytes (8 values along k),
// without swizzle: core matrix (k / 8, row / 8) of an operand with `rows` rows begins at byte
// (k / 8) rows 16 + (row / 8) 128. A descriptor holds the address and both strides in units of 16
// bytes; offsets may be added to its lower word.

__device__ __forceinline__ u64 matrix_descriptor(u32 address, u32 rows) {
    return (u64)((address & 0x3ffff) >> 4) | ((u64)rows << 16) | ((u64)(128 >> 4) << 32);
}
__device__ __forceinline__ u64 with_low_word(u64 descriptor, u32 low_word) {
    return descriptor >> 32 << 32 | low_word;
}

// The accumulators' operand list, and the numbers of the operands after them.
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define EIGHT(d, i) FOUR(d, i), FOUR(d, i + 4)
#define TO_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TO_16 TO_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TO_24 TO_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TO_32 TO_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#if NB == 16
#define ACCUMULATORS TO_8
#define OUTPUTS(d) EIGHT(d, 0)
#define INPUTS(rest) rest("%8", "%9", "%10", "%11", "%12", "%13")
#elif NB == 24
#define ACCUMULATORS TO_8 ", %8, %9, %10, %11"
#define OUTPUTS(d) EIGHT(d, 0), FOUR(d, 8)
#define INPUTS(rest) rest("%12", "%13", "%14", "%15", "%16", "%17")
#elif NB == 32
#define ACCUMULATORS TO_16
#define OUTPUTS(d) EIGHT(d, 0), EIGHT(d, 8)
#define INPUTS(rest) rest("%16", "%17", "%18", "%19", "%20", "%21")
#elif NB == 48
#define ACCUMULATORS TO_24
#define OUTPUTS(d) EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16)
#define INPUTS(rest) rest("%24", "%25", "%26", "%27", "%28", "%29")
#elif NB == 64
#define ACCUMULATORS TO_32
#define OUTPUTS(d) EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24)
#define INPUTS(rest) rest("%32", "%33", "%34", "%35", "%36", "%37")
#else
#error "NB, the batch rows of a block, must be 16, 24, 32, 48 or 64"
#endif

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define WGMMA "wgmma.mma_async.sync.aligned.m64n" TEXT(NB) "k16.f32.f16.f16 {" ACCUMULATORS "}, "
#define FROM_REGISTERS(a0, a1, a2, a3, b, go)                                                \
    "{\n.reg .pred add;\nsetp.ne.b32 add, " go ", 0;\n" WGMMA "{" a0 ", " a1 ", " a2 ", " a3 \
    "}, " b ", add, 1, 1, 0;\n}"
#define FROM_SHARED(a, b, go, unused0, unused1, unused2) \
    "{\n.reg .pred add;\nsetp.ne.b32 add, " go ", 0;\n" WGMMA a ", " b ", add, 1, 1, 0, 0;\n}"

// `a` from registers or from shared memory. With accumulate = 0, d is overwritten.
__device__ __forceinline__ void wgmma(float (&d)[SUMS], const u32 (&a)[4], u64 b, int accumulate) {
    asm volatile(INPUTS(FROM_REGISTERS)
                 : OUTPUTS(d)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}
__device__ __forceinline__ void wgmma(float (&d)[SUMS], u64 a, u64 b, int accumulate) {
    asm volatile(INPUTS(FROM_SHARED) : OUTPUTS(d) : "l"(a), "l"(b), "r"(accumulate));
}
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits for all but the latest `pending` committed groups.
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}
// Keeps the compiler from moving accesses to accumulators across asynchronous products, whose
// effect on them it does not see.
__device__ __forceinline__ void wgmma_fence_operand(float (&d)[SUMS]) {
#pragma unroll
    for (u32 i = 0; i < SUMS; i++) asm volatile("" : "+f"(d[i])::"memory");
}
