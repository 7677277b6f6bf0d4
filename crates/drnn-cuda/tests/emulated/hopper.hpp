// common.cuh, mma.cuh and hopper.cuh in C++ for the CPU, so that the persistent kernels run here
// unchanged: one CPU thread per GPU thread, all blocks concurrently. Compiled with
// -fsanitize=address, every access outside an array is found.
//
// Products and copies complete at once, so this says nothing about missing waits for them. NB
// comes from the kernel. With NAPS=w in the environment, a thread of warp w of the first block
// sleeps at its mbarriers until the rest of the block makes no progress without it: this finds
// threads that could miss a phase because nothing waits for them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <sched.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
struct uint2 {
    u32 x, y;
};
struct uint4 {
    u32 x, y, z, w;
};
struct float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline u32 min(u32 a, u32 b) { return a < b ? a : b; }

#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static // one block at a time: see `run`

[[noreturn]] inline void fail(const char* what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

// ---- blocks, warps, threads

// A barrier that blocks: there are far more threads than processors.
struct BlockingBarrier {
    u32 threads = 0;
    std::atomic<u32> here{0}, round{0};
    void wait() {
        const u32 own = round;
        if (++here < threads) return round.wait(own);
        here = 0, round++;
        round.notify_all();
    }
};
struct Warp {
    BlockingBarrier barrier;
    u32 registers[32][4], words[32];
};
struct Block {
    std::unique_ptr<unsigned char[]> allocation; // exactly as large as shared memory
    unsigned char* memory;
    u32 bytes;
    BlockingBarrier all, first;
    std::vector<Warp> warps;
    std::mutex barriers;
    std::condition_variable completed; // a phase of an mbarrier
    std::map<u32, u32> phases; // completed, of each mbarrier
    u32 all_phases = 0;
};
struct Index {
    u32 x, y;
};
inline thread_local Index threadIdx, blockIdx, blockDim, gridDim;
inline thread_local Block* block;
inline thread_local Warp* warp;

inline unsigned char* dynamic_shared() { return block->memory; }
inline void __syncthreads() { block->all.wait(); }
inline void __syncwarp() { warp->barrier.wait(); }
template <u32 threads>
void named_barrier_sync() {
    block->first.wait();
}
template <u32 registers>
void warpgroup_reg_dealloc() {}
template <u32 registers>
void warpgroup_reg_alloc() {}
inline void opaque(u32&) {}

// Collects a word of every lane and applies `combine` to all of them.
template <class Result>
Result exchange(u32 word, Result (*combine)(const u32*, u32), u32 which = 0) {
    warp->words[threadIdx.x % 32] = word;
    __syncwarp();
    Result result = combine(warp->words, which);
    __syncwarp();
    return result;
}
inline float __shfl_xor_sync(u32, float value, u32 mask) {
    u32 word;
    memcpy(&word, &value, 4);
    word = exchange<u32>(
        word, [](const u32* words, u32 lane) { return words[lane]; }, threadIdx.x % 32 ^ mask);
    memcpy(&value, &word, 4);
    return value;
}
inline u32 __shfl_sync(u32, u32 value, u32 lane) {
    return exchange<u32>(value, [](const u32* words, u32 from) { return words[from]; }, lane);
}
inline bool __any_sync(u32, bool value) {
    return exchange<bool>(value, [](const u32* words, u32) {
        return std::any_of(words, words + 32, [](u32 w) { return w != 0; });
    });
}

inline u32 __reduce_max_sync(u32, u32 value) {
    return exchange<u32>(
        value, [](const u32* words, u32) { return *std::max_element(words, words + 32); });
}
inline u32 atomicMax(u32* at, u32 value) {
    u32 found = __atomic_load_n(at, __ATOMIC_RELAXED);
    while (found < value && !__atomic_compare_exchange_n(
                                at, &found, value, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
    return found;
}

// A block whose threads exchange data by `block_sum` alone, run by one host thread: each of its
// threads from its beginning up to the first sum that is not known yet, until all sums are known
// and all threads reach their ends. Nothing may be written before the last sum.
struct Replay {
    std::vector<double> values, sums;
    size_t call;
    jmp_buf missing;
};
inline thread_local Replay* replay = nullptr;

inline double replayed_sum(double value) {
    if (replay->call < replay->sums.size()) return replay->sums[replay->call++];
    replay->values[threadIdx.x] = value;
    longjmp(replay->missing, 1);
}

// As in common.cuh.
inline double block_sum(double value, double* shared) {
    if (replay) return replayed_sum(value);
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

// Exit status where the machine does not allow enough threads.
static const int UNSUPPORTED = 77;

// Runs a kernel; its named barrier has the first `first` threads of a block.
template <class Kernel>
void launch(u32 blocks, u32 threads, u32 first, u32 bytes, Kernel kernel) {
    alarm(600); // in case the kernel hangs
    std::vector<std::unique_ptr<Block>> all;
    std::vector<std::thread> running;
    for (u32 b = 0; b < blocks; b++) {
        auto own = std::make_unique<Block>();
        own->allocation.reset(new (std::align_val_t(1024)) unsigned char[bytes]);
        own->memory = own->allocation.get(), own->bytes = bytes;
        memset(own->memory, 0xee, bytes);
        own->all.threads = threads, own->first.threads = first;
        own->warps = std::vector<Warp>(threads / 32);
        for (Warp& w : own->warps) w.barrier.threads = 32;
        all.push_back(std::move(own));
    }
    auto begin = [&](u32 b, u32 t) {
        threadIdx.x = t, blockIdx.x = b, blockDim.x = threads;
        block = all[b].get(), warp = &block->warps[t / 32];
        kernel();
    };
    try {
        for (u32 i = 0; i < blocks * threads; i++)
            running.emplace_back(begin, i / threads, i % threads);
    } catch (const std::system_error&) {
        fprintf(stderr, "this machine does not allow %u threads\n", blocks * threads);
        _exit(UNSUPPORTED);
    }
    for (std::thread& t : running) t.join();
    for (auto& b : all) operator delete[](b->allocation.release(), std::align_val_t(1024));
    alarm(0);
}

// Runs a block of which `Replay` tells.
template <class Kernel>
void launch_replayed(u32 threads, Kernel kernel) {
    Replay own;
    replay = &own;
    for (volatile bool ended = false; !ended;) {
        ended = true;
        own.values.assign(threads, 0);
        for (volatile u32 t = 0; t < threads; t = t + 1) {
            own.call = 0, threadIdx = {t, 0};
            if (setjmp(own.missing) == 0) kernel();
            else ended = false;
        }
        // The tree of `block_sum`.
        for (u32 half = threads / 2; half > 0; half /= 2)
            for (u32 t = 0; t < half; t++) own.values[t] += own.values[t + half];
        own.sums.push_back(own.values[0]);
    }
    replay = nullptr;
}

// Runs a kernel of any kind. Mode 0: threads that are independent; 1: threads of a block run
// together; 2: all blocks together, and the first 256 threads have the named barrier; 3: threads
// of a block exchange data by `block_sum` alone.
template <class Kernel>
int run(u32 x, u32 y, u32 threads, u32 shared, u32 mode, Kernel kernel) {
    if (mode == 2) return launch(x, threads, 256, shared, kernel), 0;
    for (u32 b = 0; b < x * y; b++) {
        auto one = [&] {
            blockIdx = {b % x, b / x}, blockDim = {threads, 1}, gridDim = {x, y};
            kernel();
        };
        if (mode == 1) launch(1, threads, threads, 1, one);
        if (mode == 3) launch_replayed(threads, one);
        for (u32 t = 0; mode == 0 && t < threads; t++) threadIdx = {t, 0}, one();
    }
    return 0;
}

// ---- numbers

static const u32 NONE = 0xffffffffu;
struct Values;
struct Header {
    float weight, rate;
    double max_norm;
    u32 count, spare[3];
};
struct Totals {
    double loss, norms, count, right, stopped, taken;
};
struct Coefficients {
    float scale, rate, root;
    u32 go;
};
inline float infinity() { return INFINITY; }
inline double double_nan() { return NAN; }
using std::isfinite;
using std::isnan;
inline float __int_as_float(u32 bits) {
    float x;
    memcpy(&x, &bits, 4);
    return x;
}
inline u32 __float_as_int(float x) {
    u32 bits;
    memcpy(&bits, &x, 4);
    return bits;
}
inline float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }
inline u16 half(float x) {
    _Float16 h = (_Float16)x;
    u16 bits;
    memcpy(&bits, &h, 2);
    return bits;
}
inline float half_to_float(u16 bits) {
    _Float16 h;
    memcpy(&h, &bits, 2);
    return (float)h;
}
inline u32 pack(float low, float high) { return half(low) | (u32)half(high) << 16; }
inline float low(u32 both) { return half_to_float((u16)both); }
inline float high(u32 both) { return half_to_float((u16)(both >> 16)); }
inline float clamp_to_half(float x) {
    return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x;
}
inline float fast_tanh(float x) { return std::tanh(x); }
inline float fast_sigmoid(float x) { return 0.5f * fast_tanh(0.5f * x) + 0.5f; }

// ---- words that other blocks write. Loads yield, so that the writer gets to run.

inline u32 word(const void* p) { return __atomic_load_n((const u32*)p, __ATOMIC_RELAXED); }
inline u32 ld_relaxed(const void* p) {
    sched_yield();
    return word(p);
}
inline uint2 ld_relaxed_v2(const void* p) {
    if ((u64)p % 8) fail("8 bytes that are not aligned");
    sched_yield();
    return {word(p), word((const u32*)p + 1)};
}
inline uint4 ld_relaxed_v4(const void* p) {
    if ((u64)p % 16) fail("16 bytes that are not aligned");
    sched_yield();
    const u32* words = (const u32*)p;
    return {word(words), word(words + 1), word(words + 2), word(words + 3)};
}
inline void st_relaxed_v2(void* p, uint2 v) {
    if ((u64)p % 8) fail("8 bytes that are not aligned");
    __atomic_store_n((u32*)p, v.x, __ATOMIC_RELAXED);
    __atomic_store_n((u32*)p + 1, v.y, __ATOMIC_RELAXED);
}
// Reads the word, so that the sanitizer finds addresses outside of arrays.
inline void prefetch_l2(const void* p) { word(p); }
inline u32 ld_acquire(const void* p) {
    sched_yield();
    return __atomic_load_n((const u32*)p, __ATOMIC_ACQUIRE);
}
inline void st_release(void* p, u32 v) { __atomic_store_n((u32*)p, v, __ATOMIC_RELEASE); }
static const u32 EMPTY_SENTINEL = 0xffffffffu;
inline bool any_empty(uint4 v) {
    return v.x == EMPTY_SENTINEL || v.y == EMPTY_SENTINEL || v.z == EMPTY_SENTINEL ||
           v.w == EMPTY_SENTINEL;
}

// ---- shared memory by address, and mbarriers

inline u32 shared_address(const void* p) {
    long at = (const unsigned char*)p - block->memory;
    if (at < 0 || at > (long)block->bytes) fail("an address outside shared memory");
    return (u32)at;
}
inline unsigned char* shared_at(u32 address, u32 bytes) {
    if ((u64)address + bytes > block->bytes) fail("outside shared memory");
    return block->memory + address;
}
// 8 bytes, like an mbarrier.
struct Barrier {
    u32 phase : 1, arrivals : 15, missing : 16;
    int bytes;
};
inline Barrier& barrier_at(u32 address) {
    if (address % 8) fail("an mbarrier that is not aligned");
    return *(Barrier*)shared_at(address, 8);
}
inline void arrived(u32 address, u32 arrivals, int bytes) {
    Barrier& b = barrier_at(address);
    if (b.missing < arrivals) fail("more arrivals than an mbarrier expects");
    b.missing -= arrivals, b.bytes += bytes;
    if (b.missing > 0 || b.bytes != 0) return;
    b.phase ^= 1, b.missing = b.arrivals, block->phases[address]++, block->all_phases++;
    block->completed.notify_all();
}
inline void mbarrier_init(u32 address, u32 arrivals) {
    std::lock_guard<std::mutex> alone(block->barriers);
    barrier_at(address) = {0, arrivals, arrivals, 0};
}
inline void mbarrier_arrive(u32 address) {
    std::lock_guard<std::mutex> alone(block->barriers);
    arrived(address, 1, 0);
}
// Sleeps as long as the block makes progress without this thread.
inline void nap() {
    auto phases = [] {
        std::lock_guard<std::mutex> alone(block->barriers);
        return block->all_phases;
    };
    for (u32 before = phases();;) {
        usleep(300000);
        const u32 now = phases();
        if (now == before) return;
        before = now;
    }
}
// A thread that waits does so in every phase. A phase is known by its parity alone: two phases
// later it would look as if it had not completed.
inline void mbarrier_wait(u32 address, u32 parity) {
    thread_local std::map<u32, u32> waits;
    const u32 own = waits[address]++;
    static const u32 naps = getenv("NAPS") ? atoi(getenv("NAPS")) : NONE;
    if (blockIdx.x == 0 && threadIdx.x == naps && own == 1) nap();
    std::unique_lock<std::mutex> alone(block->barriers);
    for (;; block->completed.wait(alone)) {
        if (block->phases[address] > own + 1) fail("a thread has missed a phase");
        if (barrier_at(address).phase != (parity & 1)) return;
    }
}
inline void bulk_copy_to_shared(u32 to, const void* from, u32 bytes, u32 barrier) {
    if (to % 16 || (u64)from % 16 || bytes % 16) fail("a bulk copy that is not aligned");
    {
        std::lock_guard<std::mutex> alone(block->barriers);
        arrived(barrier, 1, (int)bytes);
    }
    unsigned char* there = shared_at(to, bytes);
    for (u32 i = 0; i < bytes; i += 4) {
        u32 w = word((const char*)from + i);
        memcpy(there + i, &w, 4);
    }
    std::lock_guard<std::mutex> alone(block->barriers);
    arrived(barrier, 0, -(int)bytes);
}
inline void fence_proxy_async_shared() {}
inline void fence_proxy_async() {}

// ---- products: d (64, NB) += a (64, 16) b (16, NB) of a warpgroup; a thread has rows g and g + 8
// of its warp's 16

static const u32 SUMS = NB / 2;
inline u64 matrix_descriptor(u32 address, u32 rows) {
    return (u64)((address & 0x3ffff) >> 4) | ((u64)rows << 16) | ((u64)(128 >> 4) << 32);
}
inline u64 with_low_word(u64 descriptor, u32 lower) { return descriptor >> 32 << 32 | lower; }
inline float element(u64 descriptor, u32 k, u32 row) {
    auto field = [&](u32 bit) { return (u32)(descriptor >> bit & 0x3fff) << 4; };
    u16 bits;
    memcpy(
        &bits,
        shared_at(field(0) + k / 8 * field(16) + row / 8 * field(32) + row % 8 * 16 + k % 8 * 2, 2),
        2);
    return half_to_float(bits);
}
inline void multiply_lines(float (&d)[SUMS], const float (&a)[2][16], u64 b, int add) {
    for (u32 i = 0; i < SUMS; i++) {
        const u32 column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        float sum = add ? d[i] : 0;
        for (u32 k = 0; k < 16; k++) sum += a[i / 2 % 2][k] * element(b, k, column);
        d[i] = sum;
    }
}
inline void wgmma(float (&d)[SUMS], const u32 (&a)[4], u64 b, int add) {
    const u32 lane = threadIdx.x % 32;
    memcpy(warp->registers[lane], a, sizeof a);
    __syncwarp();
    float lines[2][16];
    for (u32 q = 0; q < 4; q++)
        for (u32 i = 0; i < 4; i++) {
            const u32 both = warp->registers[lane / 4 * 4 + q][i], k = i / 2 * 8 + q * 2;
            lines[i % 2][k] = low(both), lines[i % 2][k + 1] = high(both);
        }
    multiply_lines(d, lines, b, add);
    __syncwarp();
}
inline void wgmma(float (&d)[SUMS], u64 a, u64 b, int add) {
    const u32 line = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    float lines[2][16];
    for (u32 k = 0; k < 16; k++)
        lines[0][k] = element(a, k, line), lines[1][k] = element(a, k, line + 8);
    multiply_lines(d, lines, b, add);
}
inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int later>
void wgmma_wait() {}
inline void wgmma_fence_operand(float (&)[SUMS]) {}

// ---- products of a warp, and copies of a thread's own

inline void mma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
    const u32 lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    u32 (&words)[32][4] = warp->registers;
    memcpy(words[lane], a, sizeof a);
    __syncwarp();
    float lines[2][16], columns[2][16];
    for (u32 i = 0; i < 16; i++) {
        const u32 both = words[g * 4 + i % 4][i / 4], k = i / 8 * 8 + i % 4 * 2;
        lines[i / 4 % 2][k] = low(both), lines[i / 4 % 2][k + 1] = high(both);
    }
    __syncwarp();
    memcpy(words[lane], b, sizeof b);
    __syncwarp();
    for (u32 column = 0; column < 2; column++)
        for (u32 i = 0; i < 8; i++) {
            const u32 both = words[(2 * q + column) * 4 + i % 4][i / 4], k = i / 4 * 8 + i % 4 * 2;
            columns[column][k] = low(both), columns[column][k + 1] = high(both);
        }
    __syncwarp();
    for (u32 e = 0; e < 4; e++)
        for (u32 k = 0; k < 16; k++) d[e] += lines[e / 2][k] * columns[e % 2][k];
}
inline void ldmatrix(u32& m0, u32& m1, u32& m2, u32& m3, u32 row) {
    const u32 lane = threadIdx.x % 32;
    if (row % 16) fail("a row of a matrix that is not aligned");
    memcpy(warp->registers[lane], shared_at(row, 16), 16);
    __syncwarp();
    u32* const to[] = {&m0, &m1, &m2, &m3};
    for (u32 m = 0; m < 4; m++) *to[m] = warp->registers[8 * m + lane / 4][lane % 4];
    __syncwarp();
}
template <u32 bytes>
void cp_async(void* to, const void* from) {
    if ((u64)to % bytes || (u64)from % bytes) fail("a copy that is not aligned");
    memcpy(shared_at(shared_address(to), bytes), from, bytes);
}
inline void cp_async_commit() {}
template <int pending>
void cp_async_wait() {}
