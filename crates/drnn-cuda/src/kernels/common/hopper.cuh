// What Hopper's own instructions need: products that a warpgroup (128 threads) starts and waits for, barriers in shared memory,
// words that another block writes while this one runs. With common.cuh before it, and NB: columns of a product, 16 to 64.

static const u32 SUMS = NB / 2; // values of a (64, NB) product that a thread has

// ---- words that another block writes

__device__ __forceinline__ uint4 look4(const void* p) {
    uint4 v;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p)
                 : "memory");
    return v;
}
__device__ __forceinline__ u32 look1(const void* p) {
    u32 v;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
// What nobody writes: two f16 that are no numbers, and not the one that instructions give.
static const u32 SENTINEL = 0xffffffffu;
__device__ __forceinline__ bool any_missing(uint4 v) {
    return v.x == SENTINEL || v.y == SENTINEL || v.z == SENTINEL || v.w == SENTINEL;
}
__device__ __forceinline__ uint2 look2(const void* p) {
    uint2 v;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void show2(void* p, uint2 v) {
    asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1, %2};" ::"l"(p), "r"(v.x), "r"(v.y) : "memory");
}
// A count that says that what came before it has been done, and sees it done.
__device__ __forceinline__ u32 look1_acquired(const void* p) {
    u32 v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}
__device__ __forceinline__ void show1_released(void* p, u32 v) {
    asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

// ---- barriers in shared memory, by address

__device__ __forceinline__ void barrier_init(u32 barrier, u32 arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void barrier_arrive(u32 barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void barrier_wait(u32 barrier, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\nAGAIN%=:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@done bra DONE%=;\nbra AGAIN%=;\n"
        "DONE%=:\n}" ::"r"(barrier), "r"(parity) : "memory");
}
// Begins to copy, which counts as an arrival when it is done. The address is opaque: where NVRTC 13.0 sees that two copies' lie a
// number of bytes apart that all threads agree on, it gives the second the upper half of zero.
__device__ __forceinline__ void copy_to_shared(u32 to, const void* from, u32 bytes, u32 barrier) {
    asm volatile("" : "+l"(from));
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from),
                 "r"(bytes), "r"(barrier)
                 : "memory");
}
// What was stored into shared memory is seen by products. The plain form would wait for all of the device's memory: only before all.
__device__ __forceinline__ void seen_by_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ __forceinline__ void all_seen_by_products() { asm volatile("fence.proxy.async;" ::: "memory"); }

// ---- what a block's threads have

__device__ __forceinline__ unsigned char* block_memory() {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    return dynamic;
}
// A warpgroup leaves registers to others, or takes what they have left.
template <u32 registers>
__device__ __forceinline__ void leave_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers)); }
template <u32 registers>
__device__ __forceinline__ void take_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers)); }
// The block's first threads wait for each other.
template <u32 threads>
__device__ __forceinline__ void first_threads_meet() { asm volatile("bar.sync 1, %0;" ::"n"(threads) : "memory"); }
// The compiler computes descriptors beforehand where it can, and has no room for them.
__device__ __forceinline__ void opaque(u32& a, u32& b) { asm volatile("" : "+r"(a), "+r"(b)); }

// ---- products of a warpgroup: d (64, NB) += a (64, 16) b (16, NB)
//
// Factors in shared memory lie in tiles of 8 rows by 16 bytes (8 of the summed dimension): tile (k / 8, row / 8) of `rows` rows
// begins at byte (k / 8) rows 16 + (row / 8) 128. A descriptor is the address and both distances, in units of 16 bytes; its lower
// half can be counted on.

__device__ __forceinline__ u64 tiles(u32 address, u32 rows) {
    return (u64)((address & 0x3ffff) >> 4) | ((u64)rows << 16) | ((u64)(128 >> 4) << 32);
}

// Which registers the sums are, and the numbers of the operands behind them.
#define FOUR(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define EIGHT(d, i) FOUR(d, i), FOUR(d, i + 4)
#define TO_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define TO_16 TO_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define TO_24 TO_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define TO_32 TO_24 ", %24, %25, %26, %27, %28, %29, %30, %31"
#if NB == 16
#define PLACES TO_8
#define SUMMED(d) EIGHT(d, 0)
#define INPUTS(rest) rest("%8", "%9", "%10", "%11", "%12", "%13")
#elif NB == 24
#define PLACES TO_8 ", %8, %9, %10, %11"
#define SUMMED(d) EIGHT(d, 0), FOUR(d, 8)
#define INPUTS(rest) rest("%12", "%13", "%14", "%15", "%16", "%17")
#elif NB == 32
#define PLACES TO_16
#define SUMMED(d) EIGHT(d, 0), EIGHT(d, 8)
#define INPUTS(rest) rest("%16", "%17", "%18", "%19", "%20", "%21")
#elif NB == 48
#define PLACES TO_24
#define SUMMED(d) EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16)
#define INPUTS(rest) rest("%24", "%25", "%26", "%27", "%28", "%29")
#elif NB == 64
#define PLACES TO_32
#define SUMMED(d) EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24)
#define INPUTS(rest) rest("%32", "%33", "%34", "%35", "%36", "%37")
#else
#error "rows of a block: 16, 24, 32, 48 or 64"
#endif

#define FROM_REGISTERS(a0, a1, a2, a3, b, go) \
    "{\n.reg .pred add;\nsetp.ne.b32 add, " go ", 0;\n" \
    "wgmma.mma_async.sync.aligned.m64n" WIDTH "k16.f32.f16.f16 {" PLACES "}, {" a0 ", " a1 ", " a2 ", " a3 "}, " b ", add, 1, 1, 0;\n}"
#define FROM_SHARED(a, b, go, unused0, unused1, unused2) \
    "{\n.reg .pred add;\nsetp.ne.b32 add, " go ", 0;\n" \
    "wgmma.mma_async.sync.aligned.m64n" WIDTH "k16.f32.f16.f16 {" PLACES "}, " a ", " b ", add, 1, 1, 0, 0;\n}"
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define WIDTH TEXT(NB)

// a from registers; with `add` = 0 what d held is forgotten
__device__ __forceinline__ void product(float (&d)[SUMS], const u32 (&a)[4], u64 b, int add) {
    asm volatile(INPUTS(FROM_REGISTERS) : SUMMED(d) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add));
}
__device__ __forceinline__ void product(float (&d)[SUMS], u64 a, u64 b, int add) {
    asm volatile(INPUTS(FROM_SHARED) : SUMMED(d) : "l"(a), "l"(b), "r"(add));
}
__device__ __forceinline__ u64 with_lower(u64 descriptor, u32 lower) { return descriptor >> 32 << 32 | lower; }
__device__ __forceinline__ void products_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int later>
__device__ __forceinline__ void products_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(later) : "memory"); }
// Keeps the compiler from moving sums across what it does not see.
__device__ __forceinline__ void pinned(float (&d)[SUMS]) {
#pragma unroll
    for (u32 i = 0; i < SUMS; i++) asm volatile("" : "+f"(d[i])::"memory");
}
