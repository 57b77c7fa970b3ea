// Latencies of requests, and their percentiles; threads that keep to a CPU.

#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { MOST = 1 << 22 };

struct latencies {
    size_t count;
    uint32_t ns[MOST];
};

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void add(struct latencies *all, uint64_t since) {
    if (all->count < MOST)
        all->ns[all->count++] = now() - since;
}

static int compare(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void print(struct latencies *all, double seconds) {
    qsort(all->ns, all->count, sizeof *all->ns, compare);
    double parts[] = {0.5, 0.99, 0.999};
    printf("%.0f requests/s, p50 p99 p99.9:", all->count / seconds);
    for (int i = 0; i < 3; i++)
        printf(" %.1f", all->ns[(size_t)((all->count - 1) * parts[i])] / 1e3);
    printf(" us\n");
}

static void keep_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

// xorshift64: the same requests in each run.
static uint64_t draw(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}
