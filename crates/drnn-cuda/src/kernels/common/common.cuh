// What all files of kernels begin with. Arrays are row-major; the last dimension lies together.

typedef unsigned short u16; // also f16, as it lies in memory
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

// What the steps of one call add up to, as `state.rs` reads it.
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

// f16, alone and two at once; an approximation with its 11 bits.
__device__ __forceinline__ u16 half(float x) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
__device__ __forceinline__ float whole(u16 h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
__device__ __forceinline__ u32 pack(float low, float high) {
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ __forceinline__ float low(u32 both) { return whole((u16)both); }
__device__ __forceinline__ float high(u32 both) { return whole((u16)(both >> 16)); }
// What f16 can hold. No number stays none: the comparisons let it through.
__device__ __forceinline__ float bounded(float x) { return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x; }
__device__ __forceinline__ float fast_tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float fast_sigmoid(float x) { return 0.5f * fast_tanh(0.5f * x) + 0.5f; }

__device__ __forceinline__ u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }

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
