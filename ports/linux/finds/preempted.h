/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reclaim that a thread of a higher priority takes its CPU from, as soon as
 * /proc/self/pagemap says that it has cleared entries. On two CPUs.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

#define PAGE 4096L
/* Fewer than reclaim flushes for at once. */
#define PAGES 30L
#define BYTES (PAGES * PAGE)

#define PRESENT (1ULL << 63)

/* No page. */
#define NONE (-1L)

/* The CPU of reclaim, and that of the accesses. */
enum { RECLAIM, ACCESSES };

static int fd, pagemap, timer;
static char *map;

static atomic_bool stop, begun;

static void check(bool failed, const char *what)
{
	if (failed) {
		perror(what);
		_exit(2);
	}
}

/* Of the calling thread. Priority 0 is the usual one. */
static void run_on(int cpu, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	check(sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
	if (priority)
		check(sched_setscheduler(0, SCHED_FIFO, &param), "SCHED_FIFO");
}

static double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static void wake_in(long ns)
{
	struct itimerspec when = { .it_value = { 0, ns } };

	check(timerfd_settime(timer, 0, &when, NULL), "timerfd_settime");
}

/* Reclaim goes on a little, and longer each time: an emulator may need more. */
static long wake_later(long ns)
{
	ns = ns ? ns + ns / 2 : 10000;
	ns = ns < 300000 ? ns : 300000;
	wake_in(ns);
	return ns;
}

/* A page without an entry, of which reclaim has gone on to another, or none. */
static long first_empty(void)
{
	uint64_t entries[PAGES];
	off_t at = (unsigned long)map / PAGE * sizeof(*entries);

	check(pread(pagemap, entries, sizeof(entries), at) != sizeof(entries),
	      "pagemap");
	for (long page = 0; page + 1 < PAGES; page++)
		if (!((entries[page] | entries[page + 1]) & PRESENT))
			return page;
	return NONE;
}
