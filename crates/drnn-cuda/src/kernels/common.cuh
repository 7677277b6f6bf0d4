// What all files of kernels begin with. Arrays are row-major; the last dimension lies together.

typedef unsigned int u32;
typedef unsigned long long u64;

// Words of a batch's header, as `stage.rs` writes them.
struct Header {
    float weight;    // of one position (or value) in the gradient: 1 / count, 2 / count for squares
    float rate;      // learning rate
    double most;     // largest norm of a gradient; infinity for no clipping
    u32 count;       // positions (or values) that count
    u32 spare[3];
};

// What the steps of one call add up to, as `totals.rs` reads it.
struct Totals {
    double loss;     // sum of losses
    double norms;    // sum of the gradients' norms
    double count;    // positions (or values) that counted
    double right;    // positions whose class was the likeliest
    double stopped;  // not 0: a loss or a gradient was no number, nothing changes any more
    double taken;    // steps that Adam has taken, t
};

// What Adam multiplies with in this step.
struct Coefficients {
    float scale;     // of the gradient, so that its norm is at most `most`
    float rate;      // rate / (1 - beta1^t)
    float root;      // 1 / sqrt(1 - beta2^t)
    u32 go;          // 0: change nothing
};

// No symbol: zeros are read instead of an embedding.
static const u32 NONE = 0xffffffffu;

// NVRTC has no headers of the C library.
__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
__device__ __forceinline__ double no_number() { return __longlong_as_double(0x7ff8000000000000ll); }

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// Sum over the threads of a block, the same in every run. `shared` has one value per thread; the result is thread 0's.
__device__ __forceinline__ double block_sum(double value, double* shared) {
    shared[threadIdx.x] = value;
    __syncthreads();
    for (u32 half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
        __syncthreads();
    }
    double sum = shared[0];
    __syncthreads();
    return sum;
}
