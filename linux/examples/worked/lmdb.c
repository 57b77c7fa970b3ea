// Two threads read an LMDB database at random: `lmdb DIRECTORY MEGABYTES SECONDS [SHARE]`.
//
// A request looks up four values of 2 KiB. Of these, 99 of 100 are in the first SHARE percent of the keys
// (default 10). With NORDAHEAD in the environment, the kernel does not read ahead.
//
// cc -O2 -o lmdb lmdb.c -llmdb -lpthread

#include "latency.h"

#include <lmdb.h>

enum { THREADS = 2, LOOKUPS = 4, VALUE = 2000 };

static MDB_env *env;
static MDB_dbi table;
static uint32_t keys, often;
static double seconds;
static struct latencies all[THREADS];

static void check(int error) {
    if (error) {
        fprintf(stderr, "lmdb: %s\n", mdb_strerror(error));
        exit(1);
    }
}

static void fill(void) {
    MDB_txn *txn;
    char bytes[VALUE] = "value";
    check(mdb_txn_begin(env, NULL, 0, &txn));
    check(mdb_dbi_open(txn, NULL, MDB_INTEGERKEY | MDB_CREATE, &table));
    MDB_stat stat;
    check(mdb_stat(txn, table, &stat));
    for (uint32_t key = stat.ms_entries; key < keys; key++) {
        MDB_val name = {sizeof key, &key}, value = {VALUE, bytes};
        check(mdb_put(txn, table, &name, &value, MDB_APPEND));
        if (key % 4096 == 4095) {
            check(mdb_txn_commit(txn));
            check(mdb_txn_begin(env, NULL, 0, &txn));
        }
    }
    check(mdb_txn_commit(txn));
}

static void *serve(void *argument) {
    struct latencies *mine = argument;
    keep_to(mine - all);
    uint64_t state = 88172645463325252ull + (mine - all), sum = 0, begin = now();
    while (now() - begin < seconds * 1e9) {
        uint64_t since = now();
        MDB_txn *txn;
        check(mdb_txn_begin(env, NULL, MDB_RDONLY, &txn));
        for (int i = 0; i < LOOKUPS; i++) {
            uint32_t key = draw(&state) % (draw(&state) % 100 < 99 ? often : keys);
            MDB_val name = {sizeof key, &key}, value;
            check(mdb_get(txn, table, &name, &value));
            for (size_t at = 0; at < value.mv_size; at += 64)
                sum += ((volatile unsigned char *)value.mv_data)[at];
        }
        mdb_txn_abort(txn);
        add(mine, since);
    }
    return (void *)sum;
}

int main(int count, char **arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: lmdb DIRECTORY MEGABYTES SECONDS [SHARE]\n");
        return 2;
    }
    keys = atoi(arguments[2]) * 512;
    seconds = atof(arguments[3]);
    often = keys / 100.0 * (count > 4 ? atof(arguments[4]) : 10);
    check(mdb_env_create(&env));
    check(mdb_env_set_mapsize(env, 4ull << 30));
    check(mdb_env_open(env, arguments[1], MDB_NOSYNC | (getenv("NORDAHEAD") ? MDB_NORDAHEAD : 0), 0644));
    fill();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, serve, &all[i]);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    static struct latencies both;
    for (int i = 0; i < THREADS; i++)
        for (size_t at = 0; at < all[i].count && both.count < MOST; at++)
            both.ns[both.count++] = all[i].ns[at];
    print(&both, seconds);
}
