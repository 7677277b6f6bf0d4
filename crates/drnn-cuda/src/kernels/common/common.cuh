// Prepended to every kernel source. Arrays are row-major: the last dimension is contiguous.
//
// Every kernel takes one parameter struct by value. The structs are declared once, in Rust
// (`kernels/params`); their C declarations are generated from there, with static assertions of size
// and offsets, and are inserted before the kernel's own source.

typedef unsigned char u8;
typedef unsigned short u16; // also the bits of an f16
typedef unsigned int u32;
typedef unsigned long long u64;

// For the assertions of parameter structs: NVRTC has no headers of the C library, but this
// intrinsic.
#define offsetof(type, member) __INTADDR__(&(((type*)0)->member))

// Header of a batch, as `step/staging.rs` writes it.
struct Header {
    float weight;    // of one position (or value) in the gradient: 1 / count, 2 / count for squares
    float rate;      // learning rate
    double max_norm; // gradient clipping threshold; infinity for no clipping
    u32 count;       // positions (or values) that count
    u32 spare[3];
};

// Totals over the steps of one call, as `step/state.rs` reads them.
struct Totals {
    double loss;    // sum of losses
    double norms;   // sum of gradient norms
    double count;   // positions (or values) that counted
    double right;   // positions whose class had the highest logit
    double stopped; // not 0: a loss or a gradient was not finite; parameters no longer change
    double taken;   // Adam steps taken so far, t
};

// Coefficients of one Adam step.
struct Coefficients {
    float scale; // clipping factor of the gradient
    float rate;  // rate / (1 - beta1^t)
    float root;  // 1 / sqrt(1 - beta2^t)
    u32 go;      // 0: skip the update
};

// Defined by the sources of groups; parameter structs point to them.
struct Task;
struct Progress;
struct Recipe;

// Defined nowhere: f32, f16 or bf16, as a parameter `format` says.
struct Values;

// Not a symbol, class or sequence. An embedding lookup of it reads zeros.
static const u32 NONE = 0xffffffffu;

// NVRTC has no C library headers.
__device__ __forceinline__ float infinity() { return __int_as_float(0x7f800000); }
__device__ __forceinline__ double double_nan() {
    return __longlong_as_double(0x7ff8000000000000ll);
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

// ---- f16 conversions, and approximate activations with f16's 11 bits of precision

__device__ __forceinline__ u16 half(float x) {
    u16 h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
__device__ __forceinline__ float half_to_float(u16 h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
// Two f16 in one register: `low` in the lower half.
__device__ __forceinline__ u32 pack(float low, float high) {
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
__device__ __forceinline__ float low(u32 both) { return half_to_float((u16)both); }
__device__ __forceinline__ float high(u32 both) { return half_to_float((u16)(both >> 16)); }
// Saturates to the finite range of f16. NaN passes: both comparisons are false.
__device__ __forceinline__ float clamp_to_half(float x) {
    return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
}
__device__ __forceinline__ float fast_tanh(float x) {
    float y;
    asm("tanh.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
__device__ __forceinline__ float fast_sigmoid(float x) { return 0.5f * fast_tanh(0.5f * x) + 0.5f; }

// Aligned as wgmma's operands need it.
__device__ __forceinline__ unsigned char* dynamic_shared() {
    extern __shared__ __align__(1024) unsigned char dynamic[];
    return dynamic;
}
__device__ __forceinline__ u32 shared_address(const void* p) {
    return (u32)__cvta_generic_to_shared(p);
}

// Sum over the threads of a block by a fixed tree, so that it is reproducible. `shared` has one
// value per thread. Every thread returns the sum.
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
