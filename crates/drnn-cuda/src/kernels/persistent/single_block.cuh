// Recurrences of up to 128 units, whose weights fit the registers of one block: nothing is
// exchanged with other blocks. A block takes NB = 8 or 4 rows of the batch through all steps; a
// launch has a block for each lane (direction) and each NB rows.
//
// A warp has 16 units, all slots of them. Products have the weights on the left, so that a thread's
// accumulators are whole cells: with g = lane / 4 and q = lane % 4 those of units 2g and 2g + 1, in
// columns 2q and 2q + 1. With 8 rows these are rows of the batch; with 4 rows column 2q is row q,
// the odd columns are not used, and a thread has half as many cells, which take more time than
// products. Value e of an accumulator: unit 2g + e / 2, column 2q + e % 2.
//
// What a step reads from device memory is copied to shared memory STAGES - 1 steps ahead, by the
// thread that reads it, so that no thread waits for another one's copies.

#ifndef FROM_STATES
#define FROM_STATES 0
#endif

static const u32 THREADS = 2 * N; // a warp for each 16 units
static const u32 EACH = NB / 4;   // rows of the batch that a thread has

// A thread's place in a block: its first unit, and its rows of the batch.
struct Place {
    u32 unit, q, row0, rows;
    __device__ Place(u32 row0, u32 rows) : row0(row0), rows(rows) {
        const u32 lane = threadIdx.x % 32;
        unit = threadIdx.x / 32 * 16 + lane / 4 * 2, q = lane % 4;
    }
    __device__ u32 row(u32 e) const { return row0 + EACH * q + e; }
    __device__ bool exists(u32 e) const { return row(e) < rows; }
    __device__ u32 column(u32 e) const { return 2 * q + e; }
};

// Address of this lane's row for `ldmatrix`: its matrices are 8 columns of a product by 8 of k, one
// after the other along k.
__device__ __forceinline__ u32 lane_row(const u16* first, u32 stride) {
    return shared_address(first + threadIdx.x % 8 * stride + threadIdx.x % 32 / 8 * 8);
}
