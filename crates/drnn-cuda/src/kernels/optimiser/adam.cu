// The end of a training step: check that everything is finite, clip the gradient, Adam.
//
//   m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2
//   p -= rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)

// One block of 256 threads: partial sums of squares (256) and of losses (64, 2) become totals and
// coefficients.
extern "C" __global__ void finish(const Finish p) {
    __shared__ double shared[256];
    Totals* const totals = p.totals;
    Coefficients* const coefficients = p.coefficients;
    u32 i = threadIdx.x;
    double norm = sqrt(block_sum(p.squares[i], shared));
    double loss = block_sum(i < 64 ? p.losses[2 * i] : 0, shared);
    double right = block_sum(i < 64 ? p.losses[2 * i + 1] : 0, shared);
    if (i != 0) return;
    coefficients->go = 0;
    if (totals->stopped != 0) return;
    bool good = isfinite(norm) && isfinite(loss);
    totals->loss += loss;
    totals->count += p.header->count;
    totals->right += right;
    totals->norms += good ? norm : double_nan();
    if (!good) {
        totals->stopped = 1;
        return;
    }
    totals->taken += 1;
    coefficients->scale = (float)fmin(p.header->max_norm / (norm + 1e-6), 1.0); // PyTorch's 1e-6
    coefficients->rate = (float)(p.header->rate / (1 - pow((double)p.beta1, totals->taken)));
    coefficients->root = (float)(1 / sqrt(1 - pow((double)p.beta2, totals->taken)));
    coefficients->go = 1;
}

// A thread per parameter.
extern "C" __global__ void adam(const AdamStep p) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= p.count || !p.coefficients->go) return;
    float g = p.gradient[at] * p.coefficients->scale;
    float m = p.beta1 * p.mean[at] + (1 - p.beta1) * g;
    float v = p.beta2 * p.square[at] + (1 - p.beta2) * g * g;
    p.mean[at] = m;
    p.square[at] = v;
    p.params[at] -= p.coefficients->rate * m / (sqrtf(v) * p.coefficients->root + p.eps);
}
