// Sequences of the paper's tasks, made from their seeds as `drnn_train::{sine, reversal}` make them: a thread per element.
//
//   bits(seed, i) = mix(mix(seed) + (i + 1) * 0x9E3779B97F4A7C15)        the i-th number depends on nothing else

// What is to be made, as `data.rs` writes it.
struct Recipe {
    u64 seed;         // of the sequences
    u64 filter;       // sine: seed of the filter
    double gamma;     // sine: frequency
    u32 count, steps; // sequences; elements of each
    u32 ahead, taps;  // sine: acausal taps, and all
    u32 symbols;      // reversal
    u32 spare;
};

// As `drnn::rng` has them.
__device__ __forceinline__ u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
__device__ __forceinline__ u64 bits(u64 seed, u64 i) { return mix(mix(seed) + (i + 1) * 0x9E3779B97F4A7C15ull); }
// Uniform in [0, 1), a multiple of 2^-24: exact.
__device__ __forceinline__ float uniform(u64 seed, u64 i) { return (float)(u32)(bits(seed, i) >> 40) * 0x1p-24f; }
// Uniform among 0..n.
__device__ __forceinline__ u32 below(u64 seed, u64 i, u32 n) { return (u32)__umul64hi(bits(seed, i), n); }

// x, y (count, steps): y_t = sin(gamma * sum_j w_{j+c} x_{t+j}), zeros outside the sequence. Factors have 24 bits, so that products
// are exact in double precision, fused or not: it is the CPU's sum. The sine is CUDA's own.
extern "C" __global__ void make_sine(const Recipe* recipe, float* x, float* y) {
    const Recipe from = *recipe;
    const u64 elements = (u64)from.count * from.steps;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < elements; at += (u64)gridDim.x * blockDim.x) {
        const long long t = at % from.steps, first = t + 1 + from.ahead - from.taps; // where the oldest tap lies
        double sum = 0;
        for (u32 tap = 0; tap < from.taps; tap++) {
            const long long s = first + tap;
            if (s < 0 || s >= from.steps) continue;
            sum += (double)uniform(from.filter, tap) * (double)uniform(from.seed, at - t + s);
        }
        x[at] = uniform(from.seed, at);
        y[at] = (float)sin(from.gamma * sum);
    }
}

// x (count, steps, symbols), one-hot; y (count, steps), the symbols backwards.
extern "C" __global__ void make_reversal(const Recipe* recipe, float* x, u32* y) {
    const Recipe from = *recipe;
    const u64 elements = (u64)from.count * from.steps;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < elements; at += (u64)gridDim.x * blockDim.x) {
        const u64 t = at % from.steps;
        const u32 symbol = below(from.seed, at, from.symbols);
        for (u32 i = 0; i < from.symbols; i++) x[at * from.symbols + i] = i == symbol ? 1.0f : 0.0f;
        y[at - t + (from.steps - 1 - t)] = symbol;
    }
}
