// A thread serves requests, another one allocates and frees in bursts: `purge SECONDS [apart]`. Each has a CPU of its
// own. With `apart` the second one is a process.
//
// cc -O2 -o purge purge.c -lpthread
// LD_PRELOAD=libjemalloc.so.2 MALLOC_CONF=dirty_decay_ms:0 ./purge 5

#include "latency.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { OBJECTS = 200, OBJECT = 32 << 10, TABLE = 1 << 20, LOOKUPS = 5000 };

static double seconds;
static struct latencies all;
static uint64_t table[TABLE / 8];

// Each burst takes OBJECTS objects, uses them and frees them one by one.
static _Noreturn void *batch(void *argument) {
    (void)argument;
    void *objects[OBJECTS];
    keep_to(1);
    for (;;) {
        for (int i = 0; i < OBJECTS; i++)
            memset(objects[i] = malloc(OBJECT), i, OBJECT);
        for (int i = 0; i < OBJECTS; i++)
            free(objects[i]);
        usleep(2000);
    }
}

static void *serve(void *argument) {
    keep_to(0);
    uint64_t state = 88172645463325252ull, sum = 0, begin = now();
    while (now() - begin < seconds * 1e9) {
        uint64_t since = now();
        for (int i = 0; i < LOOKUPS; i++)
            sum += ++table[draw(&state) % (TABLE / 8)];
        add(&all, since);
    }
    return (void *)sum;
}

int main(int count, char **arguments) {
    if (count < 2) {
        fprintf(stderr, "usage: purge SECONDS [apart]\n");
        return 2;
    }
    seconds = atof(arguments[1]);
    pthread_t server, other;
    pid_t child = count > 2 ? fork() : -1;
    if (child == 0)
        batch(NULL);
    if (child < 0)
        pthread_create(&other, NULL, batch, NULL);
    pthread_create(&server, NULL, serve, NULL);
    pthread_join(server, NULL);
    if (child > 0)
        kill(child, SIGKILL);
    print(&all, seconds);
    exit(0);
}
