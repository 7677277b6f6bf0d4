// Sequences of the paper's tasks, generated from their seeds as `drnn_train::{sine, reversal}` do:
// a thread per element.
//
//   bits(seed, i) = mix(mix(seed) + (i + 1) * 0x9E3779B97F4A7C15)    counter-based: any i

// Parameters of a data set, as `group/data.rs` writes them.
struct Recipe {
    u64 seed;         // of the sequences
    u64 filter;       // sine: seed of the filter
    double gamma;     // sine: frequency
    u32 count, steps; // sequences; elements of each
    u32 ahead, taps;  // sine: acausal taps, and all taps
    u32 symbols;      // reversal
    u32 spare;
};

// The same generator as `drnn::rng`.
__device__ __forceinline__ u64 mix(u64 z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
}
__device__ __forceinline__ u64 bits(u64 seed, u64 i) {
    return mix(mix(seed) + (i + 1) * 0x9E3779B97F4A7C15ull);
}
// Uniform in [0, 1), a multiple of 2^-24: exact.
__device__ __forceinline__ float uniform(u64 seed, u64 i) {
    return (float)(u32)(bits(seed, i) >> 40) * 0x1p-24f;
}
// Uniform among 0..n.
__device__ __forceinline__ u32 below(u64 seed, u64 i, u32 n) {
    return (u32)__umul64hi(bits(seed, i), n);
}

// x, y (count, steps): y_t = sin(gamma * sum_j w_{j+c} x_{t+j}), zeros outside the sequence.
// Factors have 24 bits, so that products are exact in double precision, fused or not: the sum
// equals the CPU's. The sine is CUDA's own.
extern "C" __global__ void make_sine(const MakeSine p) {
    const Recipe recipe = *p.recipe;
    const u64 elements = (u64)recipe.count * recipe.steps, stride = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < elements; at += stride) {
        const long long t = at % recipe.steps,
                        first = t + 1 + recipe.ahead - recipe.taps; // oldest tap
        double sum = 0;
        for (u32 tap = 0; tap < recipe.taps; tap++) {
            const long long s = first + tap;
            if (s < 0 || s >= recipe.steps) continue;
            sum += (double)uniform(recipe.filter, tap) * (double)uniform(recipe.seed, at - t + s);
        }
        p.x[at] = uniform(recipe.seed, at);
        p.y[at] = (float)sin(recipe.gamma * sum);
    }
}

// x (count, steps, symbols), one-hot; y (count, steps), the symbols in reverse order.
extern "C" __global__ void make_reversal(const MakeReversal p) {
    const Recipe recipe = *p.recipe;
    const u64 elements = (u64)recipe.count * recipe.steps, stride = (u64)gridDim.x * blockDim.x;
    for (u64 at = (u64)blockIdx.x * blockDim.x + threadIdx.x; at < elements; at += stride) {
        const u64 t = at % recipe.steps;
        const u32 symbol = below(recipe.seed, at, recipe.symbols);
        for (u32 i = 0; i < recipe.symbols; i++) {
            p.x[at * recipe.symbols + i] = i == symbol ? 1.0f : 0.0f;
        }
        p.y[at - t + (recipe.steps - 1 - t)] = symbol;
    }
}
