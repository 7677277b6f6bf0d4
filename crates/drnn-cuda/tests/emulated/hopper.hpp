// What common.cuh and hopper.cuh give persistent recurrences, in C++ on this machine: their files run here as they are, a thread of
// the processor for each of the GPU's, all blocks at once. Compiled with -fsanitize=address, every access outside an array is found.
//
// Products are made at once, so nothing is learned about what must wait for them; copies are too. NB comes from the kernel. With
// NAPS=w in the environment, a thread of warp w of the first block sleeps at its barriers until nothing goes on without it: whoever
// nobody waits for is found out.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <pthread.h>
#include <sched.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <vector>

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
inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
inline u32 min(u32 a, u32 b) { return a < b ? a : b; }

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)

[[noreturn]] inline void fail(const char* what) {
    fprintf(stderr, "%s\n", what);
    abort();
}

// ---- blocks, warps, threads

// Waits until all have come. Blocking: there are far more threads than processors.
struct Meeting {
    u32 threads = 0, here = 0, round = 0;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t all = PTHREAD_COND_INITIALIZER;
    void wait() {
        pthread_mutex_lock(&mutex);
        const u32 own = round;
        if (++here == threads) here = 0, round++, pthread_cond_broadcast(&all);
        while (own == round) pthread_cond_wait(&all, &mutex);
        pthread_mutex_unlock(&mutex);
    }
};
struct Warp {
    Meeting meeting;
    u32 registers[32][4], words[32];
};
struct Block {
    std::unique_ptr<unsigned char[]> room; // as large as shared memory, so that what lies outside is found
    unsigned char* memory;
    u32 bytes;
    Meeting all, first;
    std::vector<Warp> warps;
    std::mutex barriers;
    std::map<u32, u32> turns; // of each barrier, how often all have arrived
    u32 all_turns = 0;
};
struct Index {
    u32 x;
};
inline thread_local Index threadIdx, blockIdx, blockDim;
inline thread_local Block* block;
inline thread_local Warp* warp;

inline unsigned char* block_memory() { return block->memory; }
inline void __syncthreads() { block->all.wait(); }
inline void __syncwarp() { warp->meeting.wait(); }
template <u32 threads>
void first_threads_meet() { block->first.wait(); }
template <u32 registers>
void leave_registers() {}
template <u32 registers>
void take_registers() {}
inline void opaque(u32&, u32&) {}

// What all lanes of a warp have said.
template <class Result>
Result say(u32 word, Result (*heard)(const u32*, u32), u32 which = 0) {
    warp->words[threadIdx.x % 32] = word;
    __syncwarp();
    Result result = heard(warp->words, which);
    __syncwarp();
    return result;
}
inline float __shfl_xor_sync(u32, float value, u32 mask) {
    u32 word;
    memcpy(&word, &value, 4);
    word = say<u32>(word, [](const u32* words, u32 lane) { return words[lane]; }, threadIdx.x % 32 ^ mask);
    memcpy(&value, &word, 4);
    return value;
}
inline bool __any_sync(u32, bool value) {
    return say<bool>(value, [](const u32* words, u32) { return std::any_of(words, words + 32, [](u32 w) { return w != 0; }); });
}

// What a program ends with that cannot run on this machine.
static const int NOT_HERE = 77;

// Runs a kernel: `first` threads of a block meet alone.
template <class Kernel>
void launch(u32 blocks, u32 threads, u32 first, u32 bytes, Kernel kernel) {
    alarm(600); // a kernel that never ends
    std::vector<std::unique_ptr<Block>> all;
    std::vector<std::thread> running;
    for (u32 b = 0; b < blocks; b++) {
        auto own = std::make_unique<Block>();
        own->room.reset(new (std::align_val_t(1024)) unsigned char[bytes]);
        own->memory = own->room.get(), own->bytes = bytes;
        memset(own->memory, 0xee, bytes);
        own->all.threads = threads, own->first.threads = first;
        own->warps = std::vector<Warp>(threads / 32);
        for (Warp& w : own->warps) w.meeting.threads = 32;
        all.push_back(std::move(own));
    }
    auto begin = [&](u32 b, u32 t) {
        threadIdx.x = t, blockIdx.x = b, blockDim.x = threads;
        block = all[b].get(), warp = &block->warps[t / 32];
        kernel();
    };
    try {
        for (u32 i = 0; i < blocks * threads; i++) running.emplace_back(begin, i / threads, i % threads);
    } catch (const std::system_error&) {
        fprintf(stderr, "this machine does not allow %u threads\n", blocks * threads);
        _exit(NOT_HERE);
    }
    for (std::thread& t : running) t.join();
    for (auto& b : all) operator delete[](b->room.release(), std::align_val_t(1024));
}

// ---- numbers

static const u32 NONE = 0xffffffffu;
inline u16 half(float x) {
    _Float16 h = (_Float16)x;
    u16 bits;
    memcpy(&bits, &h, 2);
    return bits;
}
inline float whole(u16 bits) {
    _Float16 h;
    memcpy(&h, &bits, 2);
    return (float)h;
}
inline u32 pack(float low, float high) { return half(low) | (u32)half(high) << 16; }
inline float low(u32 both) { return whole((u16)both); }
inline float high(u32 both) { return whole((u16)(both >> 16)); }
inline float bounded(float x) { return x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x; }
inline float fast_tanh(float x) { return std::tanh(x); }
inline float fast_sigmoid(float x) { return 0.5f * fast_tanh(0.5f * x) + 0.5f; }

// ---- words that another block writes. Whoever looks lets others run, who may be writing.

inline u32 word(const void* p) { return __atomic_load_n((const u32*)p, __ATOMIC_RELAXED); }
inline u32 look1(const void* p) {
    sched_yield();
    return word(p);
}
inline uint2 look2(const void* p) {
    if ((u64)p % 8) fail("8 bytes that do not lie at a multiple of 8");
    sched_yield();
    return {word(p), word((const u32*)p + 1)};
}
inline uint4 look4(const void* p) {
    if ((u64)p % 16) fail("16 bytes that do not lie at a multiple of 16");
    sched_yield();
    const u32* words = (const u32*)p;
    return {word(words), word(words + 1), word(words + 2), word(words + 3)};
}
inline void show2(void* p, uint2 v) {
    if ((u64)p % 8) fail("8 bytes that do not lie at a multiple of 8");
    __atomic_store_n((u32*)p, v.x, __ATOMIC_RELAXED);
    __atomic_store_n((u32*)p + 1, v.y, __ATOMIC_RELAXED);
}
inline u32 look1_acquired(const void* p) {
    sched_yield();
    return __atomic_load_n((const u32*)p, __ATOMIC_ACQUIRE);
}
inline void show1_released(void* p, u32 v) { __atomic_store_n((u32*)p, v, __ATOMIC_RELEASE); }
static const u32 SENTINEL = 0xffffffffu;
inline bool any_missing(uint4 v) { return v.x == SENTINEL || v.y == SENTINEL || v.z == SENTINEL || v.w == SENTINEL; }

// ---- shared memory by address, and barriers in it

inline u32 shared_address(const void* p) {
    long at = (const unsigned char*)p - block->memory;
    if (at < 0 || at > (long)block->bytes) fail("an address outside shared memory");
    return (u32)at;
}
inline unsigned char* shared_at(u32 address, u32 bytes) {
    if ((u64)address + bytes > block->bytes) fail("outside shared memory");
    return block->memory + address;
}
// 8 bytes, as on the GPU.
struct Barrier {
    u32 phase : 1, arrivals : 15, missing : 16;
    int bytes;
};
inline Barrier& barrier_at(u32 address) {
    if (address % 8) fail("a barrier that does not lie at a multiple of 8");
    return *(Barrier*)shared_at(address, 8);
}
inline void arrived(u32 address, u32 arrivals, int bytes) {
    Barrier& b = barrier_at(address);
    if (b.missing < arrivals) fail("more arrivals than a barrier waits for");
    b.missing -= arrivals, b.bytes += bytes;
    if (b.missing == 0 && b.bytes == 0) b.phase ^= 1, b.missing = b.arrivals, block->turns[address]++, block->all_turns++;
}
inline void barrier_init(u32 address, u32 arrivals) {
    std::lock_guard<std::mutex> alone(block->barriers);
    barrier_at(address) = {0, arrivals, arrivals, 0};
}
inline void barrier_arrive(u32 address) {
    std::lock_guard<std::mutex> alone(block->barriers);
    arrived(address, 1, 0);
}
// For as long as the block goes on without this thread.
inline void nap() {
    auto turns = [] {
        std::lock_guard<std::mutex> alone(block->barriers);
        return block->all_turns;
    };
    for (u32 before = turns();;) {
        usleep(300000);
        const u32 now = turns();
        if (now == before) return;
        before = now;
    }
}
// Whoever waits does so at every turn. A turn is known by its parity alone: two later it would look like not having come.
inline void barrier_wait(u32 address, u32 parity) {
    thread_local std::map<u32, u32> waits;
    const u32 own = waits[address]++;
    static const u32 naps = getenv("NAPS") ? 32 * atoi(getenv("NAPS")) : NONE;
    if (blockIdx.x == 0 && threadIdx.x == naps && own == 1) nap();
    for (;; sched_yield()) {
        std::lock_guard<std::mutex> alone(block->barriers);
        if (block->turns[address] > own + 1) fail("a thread has missed a turn");
        if (barrier_at(address).phase != (parity & 1)) return;
    }
}
inline void copy_to_shared(u32 to, const void* from, u32 bytes, u32 barrier) {
    if (to % 16 || (u64)from % 16 || bytes % 16) fail("a copy that does not lie at a multiple of 16");
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
inline void seen_by_products() {}
inline void all_seen_by_products() {}

// ---- products: d (64, NB) += a (64, 16) b (16, NB), a warpgroup's; a thread has lines g and g + 8 of its warp's 16

static const u32 SUMS = NB / 2;
inline u64 tiles(u32 address, u32 rows) {
    return (u64)((address & 0x3ffff) >> 4) | ((u64)rows << 16) | ((u64)(128 >> 4) << 32);
}
inline u64 with_lower(u64 descriptor, u32 lower) { return descriptor >> 32 << 32 | lower; }
inline float element(u64 descriptor, u32 k, u32 row) {
    auto field = [&](u32 bit) { return (u32)(descriptor >> bit & 0x3fff) << 4; };
    u16 bits;
    memcpy(&bits, shared_at(field(0) + k / 8 * field(16) + row / 8 * field(32) + row % 8 * 16 + k % 8 * 2, 2), 2);
    return whole(bits);
}
inline void multiply_lines(float (&d)[SUMS], const float (&a)[2][16], u64 b, int add) {
    for (u32 i = 0; i < SUMS; i++) {
        const u32 column = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        float sum = add ? d[i] : 0;
        for (u32 k = 0; k < 16; k++) sum += a[i / 2 % 2][k] * element(b, k, column);
        d[i] = sum;
    }
}
inline void product(float (&d)[SUMS], const u32 (&a)[4], u64 b, int add) {
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
inline void product(float (&d)[SUMS], u64 a, u64 b, int add) {
    const u32 line = threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4;
    float lines[2][16];
    for (u32 k = 0; k < 16; k++) lines[0][k] = element(a, k, line), lines[1][k] = element(a, k, line + 8);
    multiply_lines(d, lines, b, add);
}
inline void products_fence() {}
inline void products_commit() {}
template <int later>
void products_wait() {}
inline void pinned(float (&)[SUMS]) {}
