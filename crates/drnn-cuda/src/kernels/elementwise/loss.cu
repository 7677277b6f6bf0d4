// Losses of outputs y, and their gradients.
//
//   cross-entropy   -log softmax(y)[class]      dy = (softmax(y) - onehot(class)) / count
//   squared error   (y - target)^2              dy = 2 (y - target) / count
//
// A warp per position (one output vector of m values).

__device__ __forceinline__ float warp_max(float x) {
    for (int lane = 16; lane > 0; lane /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, lane));
    return x;
}

__device__ __forceinline__ float warp_sum(float x) {
    for (int lane = 16; lane > 0; lane /= 2) x += __shfl_xor_sync(~0u, x, lane);
    return x;
}

// Adds the bias to outputs (positions, m) in place; zeros after a sequence's end, where
// step + delay >= run[row]. A thread per value.
extern "C" __global__ void add_output_bias(const AddOutputBias p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.positions * p.m) return;
    u32 step = at / p.m / p.rows, row = at / p.m % p.rows;
    p.outputs[at] = step + p.delay < p.run[row] ? p.outputs[at] + p.bias[at % p.m] : 0;
}

// losses and hits: one per position; a hit is a class with the highest logit. `weight(position)` is
// that of a position in the gradient.
template <class Params, class Weight>
__device__ __forceinline__ void cross_entropy_of(const Params& p, Weight weight_of) {
    u32 position = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (position >= p.positions) return;
    const u32 m = p.m;
    const float* y = p.outputs + (u64)position * m;
    float* d = p.d_outputs + (u64)position * m;
    u32 own = p.classes[position];
    if (own == NONE) {
        for (u32 j = lane; j < m; j += 32) d[j] = 0;
        if (lane == 0) p.losses[position] = 0, p.hits[position] = 0;
        return;
    }
    float largest = -infinity();
    for (u32 j = lane; j < m; j += 32) largest = fmaxf(largest, y[j]);
    largest = warp_max(largest);
    float total = 0;
    for (u32 j = lane; j < m; j += 32) total += expf(y[j] - largest);
    total = warp_sum(total);
    float weight = weight_of(position);
    for (u32 j = lane; j < m; j += 32) {
        float share = expf(y[j] - largest) / total * weight;
        d[j] = j == own ? share - weight : share;
    }
    if (lane == 0) {
        p.losses[position] = logf(total) - (y[own] - largest);
        p.hits[position] = y[own] == largest;
    }
}

extern "C" __global__ void cross_entropy(const CrossEntropy p) {
    cross_entropy_of(p, [&](u32) { return p.header->weight; });
}

extern "C" __global__ void weighted_cross_entropy(const WeightedCrossEntropy p) {
    cross_entropy_of(p, [&](u32 position) { return p.weights[position]; });
}

// targets (positions, m); a NaN target does not count
extern "C" __global__ void squared_error(const SquaredError p) {
    u32 position = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (position >= p.positions) return;
    float sum = 0, weight = p.header->weight;
    for (u32 j = lane; j < p.m; j += 32) {
        u64 at = (u64)position * p.m + j;
        float error = isnan(p.targets[at]) ? 0 : p.outputs[at] - p.targets[at];
        sum += error * error;
        p.d_outputs[at] = weight * error;
    }
    sum = warp_sum(sum);
    if (lane == 0) p.losses[position] = sum, p.hits[position] = 0;
}
