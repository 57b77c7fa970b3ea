// SPDX-License-Identifier: GPL-2.0
/*
 * What a thread may read while reclaim owes a flush.
 *
 * usage: owed_flush guard|store SECONDS FILE [unreclaimed]
 *
 * Reclaim clears the entries of clean pages of a file, takes the pages out of
 * their slots, and flushes other CPUs once for many of them. A thread of a higher
 * priority takes reclaim's CPU from it meanwhile. As soon as /proc/self/pagemap
 * says that an entry is empty, it
 *
 *   guard  makes the page a guard page, or
 *   store  stores to the page, for which another page comes into the slot.
 *
 * A thread on the other CPU loads from the page afterwards. It should get a
 * signal, or what was stored. How often it does not is printed, and the status
 * is 1 then. With `unreclaimed` the same is done to pages that nobody reclaims.
 *
 * Two CPUs, root, and a file system that knows holes.
 */
#include "preempted.h"

#include <setjmp.h>
#include <signal.h>
#include <string.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif

static bool guards, reclaims;
/* The page that was changed and the number of the change, or none: all pages. */
static atomic_long chosen = NONE;
static atomic_long passes, looks, late, changes, shown;
static __thread sigjmp_buf fault;

static char load(long page)
{
	return *(volatile char *)(map + page * PAGE);
}

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(fault, 1);
}

/*
 * Loads from all pages until reclaim begins, and then from the one that was
 * changed. A load meanwhile would wait for a page that reclaim has locked.
 */
static void *loader(void *unused)
{
	run_on(ACCESSES, 0);
	while (!atomic_load(&stop)) {
		long now = atomic_load(&chosen);
		char value;

		if (sigsetjmp(fault, 0)) {
			atomic_fetch_add(&looks, 1);
			continue;
		}
		if (now == NONE && atomic_load(&begun))
			continue;
		if (now == NONE) {
			for (long page = 0; page < PAGES; page++)
				load(page);
			atomic_fetch_add(&passes, 1);
			continue;
		}
		value = load(now % PAGES);
		/* A guard page has none, and others were zero before. */
		if ((guards || !value) && atomic_load(&chosen) == now)
			atomic_fetch_add(&late, 1);
		atomic_fetch_add(&looks, 1);
	}
	return unused;
}

/* Changes a page, and keeps reclaim from its CPU until there were loads. */
static void change(long page)
{
	char *at = map + page * PAGE;
	long before = atomic_load(&looks), late_before = atomic_load(&late);
	double begin;

	if (guards)
		check(madvise(at, PAGE, MADV_GUARD_INSTALL), "MADV_GUARD_INSTALL");
	else
		*(volatile char *)at = 1;
	atomic_store(&chosen, atomic_fetch_add(&changes, 1) * PAGES + page);
	begin = seconds();
	while (atomic_load(&looks) < before + 4 && seconds() < begin + 0.2)
		;
	atomic_store(&chosen, NONE);
	atomic_fetch_add(&shown, atomic_load(&late) != late_before);
	if (guards)
		check(madvise(at, PAGE, MADV_GUARD_REMOVE), "MADV_GUARD_REMOVE");
}

static void *changer(void *unused)
{
	long ns = 0, next = 0;

	run_on(RECLAIM, 1);
	while (!atomic_load(&stop)) {
		uint64_t times;
		long page;

		check(read(timer, &times, sizeof(times)) != sizeof(times), "timer");
		if (!atomic_load(&begun)) {
			ns = 0;
			continue;
		}
		page = reclaims ? first_empty() : next++ % PAGES;
		if (page != NONE) {
			change(page);
			ns = 0;
			continue;
		}
		ns = wake_later(ns);
	}
	return unused;
}

static void *reclaimer(void *unused)
{
	unsigned int seed = 1;

	run_on(RECLAIM, 0);
	/* Of this thread alone. */
	setpriority(PRIO_PROCESS, 0, 19);
	while (!atomic_load(&stop)) {
		long before;

		/* The changer gives its CPU up now and then, for all of its priority. */
		if (sigsetjmp(fault, 0))
			continue;
		/* Clean and zero, and no longer where a CPU keeps new pages. */
		if (!guards)
			check(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
					0, BYTES), "fallocate");
		for (long page = 0; page < PAGES; page++)
			load(page);
		before = atomic_load(&passes);
		while (atomic_load(&passes) < before + 2 && !atomic_load(&stop))
			usleep(500);
		atomic_store(&begun, true);
		wake_in(1 + rand_r(&seed) % 100000);
		if (reclaims)
			madvise(map, BYTES, MADV_PAGEOUT);
		else
			usleep(1000);
		atomic_store(&begun, false);
	}
	return unused;
}

int main(int count, char **arguments)
{
	void *(*const RUN[])(void *) = { loader, changer, reclaimer };
	struct sigaction action = { .sa_handler = on_fault, .sa_flags = SA_NODEFER };
	pthread_t threads[3];

	guards = count > 1 && !strcmp(arguments[1], "guard");
	reclaims = count == 4;
	if (count < 4 || count > 5 || (!guards && strcmp(arguments[1], "store")) ||
	    (count == 5 && strcmp(arguments[4], "unreclaimed"))) {
		fprintf(stderr, "usage: owed_flush guard|store SECONDS FILE [unreclaimed]\n");
		return 2;
	}
	fd = open(arguments[3], O_RDWR | O_CREAT | O_TRUNC, 0600);
	check(fd < 0 || ftruncate(fd, BYTES), arguments[3]);
	unlink(arguments[3]);
	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(map == MAP_FAILED || madvise(map, BYTES, MADV_RANDOM), "mmap");
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	check(pagemap < 0, "/proc/self/pagemap");
	timer = timerfd_create(CLOCK_MONOTONIC, 0);
	check(timer < 0 || sigaction(SIGSEGV, &action, NULL), "timerfd_create");
	for (int i = 0; i < 3; i++)
		check(pthread_create(&threads[i], NULL, RUN[i], NULL), "pthread_create");
	sleep(atoi(arguments[2]));
	atomic_store(&stop, true);
	pthread_join(threads[2], NULL);
	wake_in(1);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	printf("%s: %ld changes, and after %ld of them loads from the old page\n",
	       arguments[1], changes, shown);
	return shown != 0;
}
