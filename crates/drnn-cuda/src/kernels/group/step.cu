// The end of a training step, lane by lane: the gradient's norm, a check that everything is finite,
// clipping, Adam.

static const u32 BLOCKS = 32; // blocks of partial sums per lane: one per thread of `group_finish`

// The gradient of parameter `at`, not yet divided by the number of targets, from the products of
// its lane: rows are columns of the d images, columns those of the h images.
__device__ __forceinline__ float gradient(const float* products, u32 at) {
    if (at >= W_OUT) {
        const bool bias = at >= B_OUT;
        at -= bias ? B_OUT : W_OUT;
        const u32 output = bias ? at : at / (DIRECTIONS * N), column = at % (DIRECTIONS * N);
        const u32 direction = bias ? 0 : column / N;
        return products
            [((u64)direction * 8 * D_GROUPS + 4 * N + output) * DW_WIDTH +
             (bias ? ONES : column % N)];
    }
    products += (u64)(at / PER_DIRECTION) * 8 * D_GROUPS * DW_WIDTH;
    at %= PER_DIRECTION;
    auto row = [&](u32 weight_row) {
        return products + (weight_row % N * 4 + weight_row / N) * DW_WIDTH;
    };
    if (at >= B_IH) return row((at - B_IH) % (4 * N))[ONES];
    if (at >= W_HH) return row((at - W_HH) / N)[(at - W_HH) % N];
    const float* x = row(at / Q) + N + at % Q * 3;
    return x[0] + x[1];
}

__device__ __forceinline__ double warp_total(double x) {
    for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
    return x;
}

// Resets all lanes at the beginning of a round.
extern "C" __global__ void group_begin(const GroupBegin p) {
    u32 lane_id = blockIdx.x * blockDim.x + threadIdx.x;
    if (lane_id >= p.lanes) return;
    Progress& own = p.progress[lane_id];
    own.loss = own.norms = own.count = own.right = 0;
    own.cursor = own.stopped = 0;
}

// partial (lanes, BLOCKS): sums of squares
extern "C" __global__ void group_squares(const GroupSquares p) {
    __shared__ double sums[256];
    const u32 lane_id = blockIdx.y;
    if (!has_batch(p.tasks[lane_id], p.progress[lane_id])) return;
    const float* const products = p.products + (u64)lane_id * DIRECTIONS * 8 * D_GROUPS * DW_WIDTH;
    double sum = 0;
#pragma unroll 4
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < PARAMETERS;
         at += BLOCKS * blockDim.x) {
        const double g = gradient(products, at);
        sum += g * g;
    }
    sum = block_sum(sum, sums);
    if (threadIdx.x == 0) p.partial[lane_id * BLOCKS + blockIdx.x] = sum;
}

// A warp per lane: partial sums become totals and coefficients, and the cursor moves to the next
// batch.
extern "C" __global__ void group_finish(const GroupFinish p) {
    const u32 lane_id = blockIdx.x, i = threadIdx.x;
    const Task task = p.tasks[lane_id];
    Progress& own = p.progress[lane_id];
    Coefficients& with = p.coefficients[lane_id];
    const bool working = has_batch(task, own);
    __syncwarp();
    if (i == 0) with.go = 0;
    if (!working) return;
    const double* part = p.losses + (lane_id * BLOCKS + i) * 3;
    const double loss = warp_total(part[0]), count = warp_total(part[1]),
                 right = warp_total(part[2]);
    const double weight = (CLASSES ? 1.0 : 2.0) / fmax(count, 1.0);
    const double norm = p.learn ? sqrt(warp_total(p.squares[lane_id * BLOCKS + i])) * weight : 0;
    if (i != 0) return;
    const bool good = isfinite(norm) && isfinite(loss);
    own.loss += loss, own.count += count, own.right += right;
    own.norms += good ? norm : double_nan();
    own.cursor += 1;
    if (!p.learn) return;
    if (!good) {
        own.stopped = 1;
        return;
    }
    own.taken += 1;
    with.scale = (float)(fmin(task.max_norm / (norm + 1e-6), 1.0) * weight); // PyTorch's 1e-6
    with.rate = (float)(task.rate / (1 - pow((double)p.beta1, own.taken)));
    with.root = (float)(1 / sqrt(1 - pow((double)p.beta2, own.taken)));
    with.go = 1;
}

// Grid (BLOCKS, lanes).
extern "C" __global__ void group_adam(const GroupAdam p) {
    const u32 lane_id = blockIdx.y;
    const Coefficients with = p.coefficients[lane_id];
    if (!with.go) return;
    const float* __restrict__ const products =
        p.products + (u64)lane_id * DIRECTIONS * 8 * D_GROUPS * DW_WIDTH;
    const u64 first = (u64)lane_id * PARAMETERS;
#pragma unroll 4
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < PARAMETERS; i += BLOCKS * blockDim.x) {
        const u64 at = first + i;
        const float g = gradient(products, i) * with.scale;
        const float m = p.beta1 * p.mean[at] + (1 - p.beta1) * g;
        const float v = p.beta2 * p.square[at] + (1 - p.beta2) * g * g;
        p.mean[at] = m;
        p.square[at] = v;
        p.params[at] -= with.rate * m / (sqrtf(v) * with.root + p.eps);
    }
}
