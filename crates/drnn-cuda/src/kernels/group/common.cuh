// Many small LSTMs trained at once, each in blocks of its own: what the files of this folder share.
//
// Compile-time constants: N units, Q inputs, OUT outputs, DIRECTIONS, CLASSES (1: classes, 0:
// values), ROWS of the batch per block, ROW_TILES of 56 rows that they fill, STAGES of the pipeline
// in weights.cu.
//
// Every operand of wgmma is stored as an image, the core-matrix layout without swizzle: columns in
// groups of 8 f16,
//
//   image[column / 8][row][column % 8]                      16 bytes per row of a column group
//
//   h image of step t    h' (N) | x, three columns each | 1 | 1       state before the step, input
//   d image of step t    dgates (4 per unit) | doutputs of step t - 1
//
// so that one product computes a step's gates, one the gradient of h', and one, over all images,
// that of every parameter:
//
//   gates = [W_hh W_x b] (h image)^T
//   dh'   = [W_hh W_o]^T (d image)^T
//   dW    = (d images)^T (h images)
//
// x w is computed as (x + x_rest) w + x w_rest and b as b + b_rest, each term in f16, which keeps
// 22 bits of inputs and biases. There is one image more than steps: it pairs the last step's h with
// the gradient of its output.
//
// Loss scaling: gradients are those of the sum of losses (of half the sum of squares). The division
// by the number of targets happens at the end, in f32, so that nothing underflows in f16.

__host__ __device__ constexpr u32 round_up(u32 value, u32 step) {
    return (value + step - 1) / step * step;
}

static const u32 UNITS = round_up(N, 16);                      // with padding
static const u32 TILE_ROWS = 56;                               // batch rows of a product: wgmma's n
static const u32 HEIGHT = round_up(ROW_TILES * TILE_ROWS, 16); // rows of an image
static const u32 STRIDE = HEIGHT + 1;       // one more spreads column groups over banks
static const u32 GROUP_BYTES = 16 * STRIDE; // of a column group of an image
static const u32 ONES = N + 3 * Q;          // first of the two columns of ones
static const u32 H_GROUPS = round_up(ONES + 2, 16) / 8;
static const u32 D_GROUPS = round_up(4 * N + OUT, 16) / 8;
static const u32 H_IMAGE = H_GROUPS * GROUP_BYTES, D_IMAGE = D_GROUPS * GROUP_BYTES; // bytes
static const u32 TILES = UNITS / 16;                    // of 64 gates: 16 units
static const u32 BACKWARD_TILES = round_up(N, 64) / 64; // of 64 units
static const u32 W_GROUP_BYTES = 64 * 16;               // a column group of a tile's weights
static const u32 W_FORWARD = TILES * H_GROUPS * W_GROUP_BYTES;
static const u32 W_BACKWARD = BACKWARD_TILES * D_GROUPS * W_GROUP_BYTES;
// Gates, or cells, of a step: [tile][8 rows][unit][row].
static const u32 SAVED = ROW_TILES * TILE_ROWS * N;
static const u32 COLUMN_TILES = round_up(8 * H_GROUPS, TILE_ROWS) / TILE_ROWS; // of dW
static const u32 DW_WIDTH = TILE_ROWS * COLUMN_TILES;

// Parameters of a direction: W_ih (4N, Q), W_hh (4N, N), b_ih, b_hh (4N each). After the
// directions: W_o (OUT, DIRECTIONS N), b_o (OUT).
static const u32 W_HH = 4 * N * Q, B_IH = W_HH + 4 * N * N, B_HH = B_IH + 4 * N;
static const u32 PER_DIRECTION = B_HH + 4 * N;
static const u32 W_OUT = DIRECTIONS * PER_DIRECTION, B_OUT = W_OUT + OUT * DIRECTIONS * N;
static const u32 PARAMETERS = B_OUT + OUT;

// What a lane trains on in this round, as `group/executor.rs` writes it.
struct Task {
    const float* x;    // (sequences, elements, Q)
    const u32* y;      // (sequences, elements) classes, or (sequences, elements, OUT) values
    const u32* chosen; // indices of sequences, batch after batch
    u32 count, batch;  // length of `chosen`; sequences per batch
    float rate;        // learning rate
    u32 spare;
    double max_norm; // gradient clipping threshold
};

// A lane's progress, as `group/executor.rs` reads it.
struct Progress {
    double loss, norms, count, right; // sums over the batches of a round
    double taken;                     // Adam steps taken so far, t
    u32 cursor;                       // batches done
    u32 stopped;                      // not 0: a loss or a gradient was not finite
};

// Whether a lane has a batch left. Blocks of lanes that have none return at once.
__device__ __forceinline__ bool has_batch(const Task& task, const Progress& progress) {
    return !progress.stopped && progress.cursor * task.batch < task.count;
}

// The sequence in row `row` of the current batch, or NONE.
__device__ __forceinline__ u32 sequence_of(const Task& task, u32 cursor, u32 row) {
    u32 at = cursor * task.batch + row;
    return row < task.batch && at < task.count ? task.chosen[at] : NONE;
}

// Byte offset of (row, column) in an image.
__device__ __forceinline__ u32 in_image(u32 row, u32 column) {
    return column / 8 * GROUP_BYTES + row * 16 + column % 8 * 2;
}

// wgmma's matrix descriptor: an address in shared memory, and the byte strides to the next 8x8 core
// matrix along k and along the other dimension.
__device__ __forceinline__ u64 descriptor(u32 address, u32 k_stride, u32 row_stride) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(k_stride >> 4) << 16 |
           (u64)(row_stride >> 4) << 32;
}
// The descriptor of an address `bytes` further. Opaque to the compiler, which would otherwise
// precompute all of them and spill.
__device__ __forceinline__ u64 advance(u64 from, u32 bytes) {
    u32 lower = (u32)from + (bytes >> 4);
    asm volatile("" : "+r"(lower));
    return from >> 32 << 32 | lower;
}

// d (64, 56) (+)= a (64, 16) b (16, 56), by a warpgroup. A thread's accumulators: rows
// 16 warp + lane / 4 (+ 8), columns 8 j + lane % 4 * 2 (+ 1), as d[4 j + 2 (row + 8?) + (column +
// 1?)]. TRANSPOSED: k runs over the images' rows instead of their columns.
template <int TRANSPOSED>
__device__ __forceinline__ void wgmma(float (&d)[28], u64 a, u64 b, u32 accumulate) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %30, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n56k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, "
        "%9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, "
        "%27}, "
        "%28, %29, p, 1, 1, %31, %31;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]),
          "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]),
          "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),
          "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
        : "l"(a), "l"(b), "r"(accumulate), "n"(TRANSPOSED));
}
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Waits for all but the latest `PENDING` committed groups.
template <int PENDING>
__device__ __forceinline__ void wgmma_wait(float (&d)[28]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
#pragma unroll
    for (u32 i = 0; i < 28; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// Makes this thread's stores to shared memory visible to the async proxy, through which wgmma and
// bulk copies read. A barrier must follow.
__device__ __forceinline__ void fence_proxy_async_shared() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// One thread starts a bulk copy of an image to device memory while the others go on.
// `bulk_copies_wait_read` waits until its source may be overwritten.
__device__ __forceinline__ void bulk_copy_to_global(void* to, u32 from, u32 bytes) {
    asm volatile(
        "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\n"
        "cp.async.bulk.commit_group;" ::"l"(to),
        "r"(from), "r"(bytes)
        : "memory");
}
__device__ __forceinline__ void bulk_copies_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
