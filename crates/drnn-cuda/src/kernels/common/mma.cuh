// Tensor-core products of a warp, and asynchronous copies to shared memory: Ampere's instructions,
// which newer GPUs have too.

// d (16, 8) += a (16, 16) b (16, 8). With g = lane / 4 and q = lane % 4 a thread has rows g and
// g + 8 of d, columns 2q and 2q + 1: value e is row g + 8 (e / 2), column 2q + e % 2.
__device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four (8, 8) matrices of f16 from shared memory; `row` is the address of row lane % 8 of matrix
// lane / 8. A thread gets columns 2q and 2q + 1 of row g of each.
__device__ __forceinline__ void ldmatrix(u32& m0, u32& m1, u32& m2, u32& m3, u32 row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(m0), "=r"(m1), "=r"(m2), "=r"(m3)
                 : "r"(row)
                 : "memory");
}

// Starts an asynchronous copy of 4 or 16 bytes from device memory to shared memory.
template <u32 bytes>
__device__ __forceinline__ void cp_async(void* to, const void* from) {
    if (bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)),
                     "l"(from)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(shared_address(to)),
                     "l"(from), "n"(bytes)
                     : "memory");
}
__device__ __forceinline__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
// Waits for all but the latest `pending` groups that this thread committed.
template <int pending>
__device__ __forceinline__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}
