// The end of a step, lane by lane: the gradient's norm, is everything a number, clipping, Adam.

static const u32 BLOCKS = 32; // of partial sums, one for each thread of `group_finish`

// The gradient of parameter `at`, but for one over the targets, from the products of its lane: rows are columns of the d images,
// columns those of the h images.
__device__ __forceinline__ float gradient(const float* products, u32 at) {
    if (at >= W_OUT) {
        const bool bias = at >= B_OUT;
        at -= bias ? B_OUT : W_OUT;
        const u32 output = bias ? at : at / (DIRECTIONS * N), column = at % (DIRECTIONS * N);
        const u32 direction = bias ? 0 : column / N;
        return products[((u64)direction * 8 * D_GROUPS + 4 * N + output) * D_WIDTH + (bias ? ONES : column % N)];
    }
    products += (u64)(at / OF_DIRECTION) * 8 * D_GROUPS * D_WIDTH;
    at %= OF_DIRECTION;
    auto row = [&](u32 of_weights) { return products + (of_weights % N * 4 + of_weights / N) * D_WIDTH; };
    if (at >= B_IH) return row((at - B_IH) % (4 * N))[ONES];
    if (at >= W_HH) return row((at - W_HH) / N)[(at - W_HH) % N];
    const float* x = row(at / Q) + N + at % Q * 3;
    return x[0] + x[1];
}

__device__ __forceinline__ double warp_total(double x) {
    for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
    return x;
}

// All lanes at the beginning of a round.
extern "C" __global__ void group_begin(Progress* progress, u32 lanes) {
    u32 lane = blockIdx.x * blockDim.x + threadIdx.x;
    if (lane >= lanes) return;
    Progress& own = progress[lane];
    own.loss = own.norms = own.count = own.right = 0;
    own.cursor = own.stopped = 0;
}

// partial (lanes, BLOCKS): squares
extern "C" __global__ void group_squares(const Task* tasks, const Progress* progress, const float* products, double* partial) {
    __shared__ double sums[256];
    const u32 owner = blockIdx.y;
    if (!at_work(tasks[owner], progress[owner])) return;
    products += (u64)owner * DIRECTIONS * 8 * D_GROUPS * D_WIDTH;
    double sum = 0;
#pragma unroll 4
    for (u32 at = blockIdx.x * blockDim.x + threadIdx.x; at < PARAMETERS; at += BLOCKS * blockDim.x) {
        const double g = gradient(products, at);
        sum += g * g;
    }
    sum = block_sum(sum, sums);
    if (threadIdx.x == 0) partial[owner * BLOCKS + blockIdx.x] = sum;
}

// A warp per lane: sums become totals and coefficients, and the next batch's turn comes.
extern "C" __global__ void group_finish(
    const Task* tasks, Progress* progress, const double* squares, const double* losses, Coefficients* coefficients, float beta1,
    float beta2, u32 learn) {
    const u32 owner = blockIdx.x, i = threadIdx.x;
    const Task task = tasks[owner];
    Progress& own = progress[owner];
    Coefficients& with = coefficients[owner];
    const bool working = at_work(task, own);
    __syncwarp();
    if (i == 0) with.go = 0;
    if (!working) return;
    const double* part = losses + (owner * BLOCKS + i) * 3;
    const double loss = warp_total(part[0]), count = warp_total(part[1]), right = warp_total(part[2]);
    const double weight = (CLASSES ? 1.0 : 2.0) / fmax(count, 1.0);
    const double norm = learn ? sqrt(warp_total(squares[owner * BLOCKS + i])) * weight : 0;
    if (i != 0) return;
    const bool good = isfinite(norm) && isfinite(loss);
    own.loss += loss, own.count += count, own.right += right;
    own.norms += good ? norm : no_number();
    own.cursor += 1;
    if (!learn) return;
    if (!good) {
        own.stopped = 1;
        return;
    }
    own.taken += 1;
    with.scale = (float)(fmin(task.most / (norm + 1e-6), 1.0) * weight); // PyTorch's 1e-6
    with.rate = (float)(task.rate / (1 - pow((double)beta1, own.taken)));
    with.root = (float)(1 / sqrt(1 - pow((double)beta2, own.taken)));
    with.go = 1;
}

// Blocks (BLOCKS, lanes).
extern "C" __global__ void group_adam(
    const Coefficients* coefficients, const float* __restrict__ products, float* __restrict__ params, float* __restrict__ mean,
    float* __restrict__ square, float beta1, float beta2, float eps) {
    const u32 owner = blockIdx.y;
    const Coefficients with = coefficients[owner];
    if (!with.go) return;
    products += (u64)owner * DIRECTIONS * 8 * D_GROUPS * D_WIDTH;
    const u64 first = (u64)owner * PARAMETERS;
#pragma unroll 4
    for (u32 i = blockIdx.x * blockDim.x + threadIdx.x; i < PARAMETERS; i += BLOCKS * blockDim.x) {
        const u64 at = first + i;
        const float g = gradient(products, i) * with.scale;
        const float m = beta1 * mean[at] + (1 - beta1) * g;
        const float v = beta2 * square[at] + (1 - beta2) * g * g;
        mean[at] = m;
        square[at] = v;
        params[at] -= with.rate * m / (sqrtf(v) * with.root + eps);
    }
}
