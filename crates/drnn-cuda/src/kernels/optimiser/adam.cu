// The end of a step: is everything a number, how far is the gradient clipped, and Adam.
//
//   m = b1 m + (1 - b1) g      v = b2 v + (1 - b2) g^2      p -= rate m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps)

// One block of 256 threads: partial sums of squares (256) and of losses (64, 2) become totals and coefficients.
extern "C" __global__ void finish(
    const Header* header, const double* squares, const double* losses, Totals* totals, Coefficients* coefficients, float beta1,
    float beta2) {
    __shared__ double shared[256];
    u32 i = threadIdx.x;
    double norm = sqrt(block_sum(squares[i], shared));
    double loss = block_sum(i < 64 ? losses[2 * i] : 0, shared);
    double right = block_sum(i < 64 ? losses[2 * i + 1] : 0, shared);
    if (i != 0) return;
    coefficients->go = 0;
    if (totals->stopped != 0) return;
    bool good = isfinite(norm) && isfinite(loss);
    totals->loss += loss;
    totals->count += header->count;
    totals->right += right;
    totals->norms += good ? norm : no_number();
    if (!good) {
        totals->stopped = 1;
        return;
    }
    totals->taken += 1;
    coefficients->scale = (float)fmin(header->most / (norm + 1e-6), 1.0); // PyTorch's 1e-6
    coefficients->rate = (float)(header->rate / (1 - pow((double)beta1, totals->taken)));
    coefficients->root = (float)(1 / sqrt(1 - pow((double)beta2, totals->taken)));
    coefficients->go = 1;
}

extern "C" __global__ void adam(
    const Coefficients* coefficients, const float* gradient, float* params, float* mean, float* square, float beta1, float beta2,
    float eps, u32 count) {
    u32 at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= count || !coefficients->go) return;
    float g = gradient[at] * coefficients->scale;
    float m = beta1 * mean[at] + (1 - beta1) * g;
    float v = beta2 * square[at] + (1 - beta2) * g * g;
    mean[at] = m;
    square[at] = v;
    params[at] -= coefficients->rate * m / (sqrtf(v) * coefficients->root + eps);
}
