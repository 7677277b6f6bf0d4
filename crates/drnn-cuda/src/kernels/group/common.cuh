// Many small LSTMs at once, each alone in its blocks: what the files of this folder share. Defined when compiled: N units, Q inputs,
// OUT outputs, DIRECTIONS, CLASSES (1: classes, 0: values), ROWS of a block, HALVES of 56 rows that they fill,
// IN_TURN images at hand for gradients of weights.
//
// Everything that Hopper's products read is an image: columns in groups of 8, f16,
//
//   image[column / 8][row][column % 8]                      rows of a group lie one behind the other, 16 bytes each
//
//   h image of step t    h' (N) | x, three columns each | 1 | 1           the state before the step, and what it reads
//   d image of step t    d gates (4 for each unit) | d answers of the step before
//
// so that one product is a step's gates, one is the gradient of h', and one, over all images, that of every parameter:
//
//   gates = [W_hh W_x b] (h image)^T       dh' = [W_hh W_o]^T (d image)^T       dW = (d images)^T (h images)
//
// x w is (x + x_rest) w + x w_rest and b is b + b_rest, each term f16: input and biases keep 22 bits. There is an image more
// than steps: behind the last step's h stands what its answer's gradient belongs to.
//
// Gradients are those of the sum of losses (of half the sum of squares); one over the number of targets comes in at the end, so
// that nothing vanishes in f16.

typedef unsigned char u8;

__host__ __device__ constexpr u32 up_to(u32 value, u32 step) { return (value + step - 1) / step * step; }

static const u32 UNITS = up_to(N, 16);                      // with those that are not there
static const u32 HALF = 56;                                 // rows of a product
static const u32 HEIGHT = up_to(HALVES * HALF, 16);         // rows of an image
static const u32 STRIDE = HEIGHT + 1;                       // one more: groups begin in different banks
static const u32 GROUP = 16 * STRIDE;                       // bytes of a group of columns
static const u32 ONES = N + 3 * Q;                          // the column of ones
static const u32 H_GROUPS = up_to(ONES + 2, 16) / 8;
static const u32 D_GROUPS = up_to(4 * N + OUT, 16) / 8;
static const u32 H_IMAGE = H_GROUPS * GROUP, D_IMAGE = D_GROUPS * GROUP; // bytes
static const u32 TILES = UNITS / 16;                        // of 64 gates: 16 units
static const u32 BACK_TILES = up_to(N, 64) / 64;            // of 64 units
static const u32 PLATE = 64 * 16;                           // bytes of a group of a tile's weights: 64 rows, 8 columns
static const u32 W_FORWARD = TILES * H_GROUPS * PLATE, W_BACKWARD = BACK_TILES * D_GROUPS * PLATE;
static const u32 SAVED = HALVES * HALF * N;                 // gates, or cells, of a step: [half][8 rows][unit][row]
static const u32 N_PARTS = up_to(8 * H_GROUPS, HALF) / HALF; // of the gradients' columns
static const u32 D_WIDTH = HALF * N_PARTS;

// Parameters of a direction: W_ih (4N, Q), W_hh (4N, N), b_ih, b_hh (4N each); behind the directions W_o (OUT, all units), b_o.
static const u32 W_HH = 4 * N * Q, B_IH = W_HH + 4 * N * N, B_HH = B_IH + 4 * N, OF_DIRECTION = B_HH + 4 * N;
static const u32 W_OUT = DIRECTIONS * OF_DIRECTION, B_OUT = W_OUT + OUT * DIRECTIONS * N, PARAMETERS = B_OUT + OUT;

// What a lane is to do, as `round.rs` writes it.
struct Task {
    const float* x;      // (sequences, elements, Q)
    const u32* y;        // (sequences, elements) classes, or (sequences, elements, OUT) values
    const u32* chosen;   // sequences, batch after batch
    u32 count, batch;    // how many; of a batch
    float rate;          // learning rate
    u32 spare;
    double most;         // largest norm of a gradient
};

// How far it has come, as `round.rs` reads it.
struct Progress {
    double loss, norms, count, right; // sums over the batches of a round
    double taken;                     // steps that Adam has taken, t
    u32 cursor;                       // batches done
    u32 stopped;                      // not 0: a loss or a gradient was no number
};

// Whether a lane has a batch now: blocks of those that have none end at once.
__device__ __forceinline__ bool at_work(const Task& task, const Progress& progress) {
    return !progress.stopped && progress.cursor * task.batch < task.count;
}

// The sequence in row `row` of a batch; NONE where there is none.
__device__ __forceinline__ u32 sequence_of(const Task& task, u32 cursor, u32 row) {
    u32 at = cursor * task.batch + row;
    return row < task.batch && at < task.count ? task.chosen[at] : NONE;
}

// Byte of (row, column) in an image.
__device__ __forceinline__ u32 in_image(u32 row, u32 column) { return column / 8 * GROUP + row * 16 + column % 8 * 2; }

__device__ __forceinline__ float sigmoid_of_half(float half_x) { return 0.5f * fast_tanh(half_x) + 0.5f; }

// What a product reads: an address in shared memory, and the bytes to the next 8x8 along its depth and along its other side.
__device__ __forceinline__ u64 descriptor(u32 address, u32 along_depth, u32 along_side) {
    return (u64)((address & 0x3ffff) >> 4) | (u64)(along_depth >> 4) << 16 | (u64)(along_side >> 4) << 32;
}
// The same `bytes` further. Hidden from the compiler, which would keep each of them in registers.
__device__ __forceinline__ u64 further(u64 from, u32 bytes) {
    u32 lower = (u32)from + (bytes >> 4);
    asm volatile("" : "+r"(lower));
    return from >> 32 << 32 | lower;
}

// d (64, 56) (+)= a (64, 16) b (16, 56), by four warps together; values of a thread: rows 16 warp + lane / 4 (+ 8), columns
// 8 j + lane % 4 * 2 (+ 1), as d[4 j + 2 (row + 8?) + (column + 1?)]. TURNED: depth is the images' rows, not their columns.
template <int TURNED>
__device__ __forceinline__ void multiply(float (&d)[28], u64 a, u64 b, u32 add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %30, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n56k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, "
        "%15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27}, %28, %29, p, 1, 1, %31, %31;\n}"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]),
          "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]),
          "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
        : "l"(a), "l"(b), "r"(add), "n"(TURNED));
}
__device__ __forceinline__ void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void products_begun() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits for all but the latest `LATER` that were begun.
template <int LATER>
__device__ __forceinline__ void products_done(float (&d)[28]) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LATER) : "memory");
#pragma unroll
    for (u32 i = 0; i < 28; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// What was written to shared memory is seen by products and copies, which take another way there. Then a barrier is due.
__device__ __forceinline__ void shown() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// One thread copies an image to device memory while the others go on; `left` waits until it may be overwritten.
__device__ __forceinline__ void send(void* to, u32 from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;\ncp.async.bulk.commit_group;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void left() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
