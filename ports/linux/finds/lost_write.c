// SPDX-License-Identifier: GPL-2.0
/*
 * A store that is lost while reclaim owes a flush.
 *
 * usage: lost_write SECONDS FILE [unreclaimed]
 *
 * Reclaim clears the entries of pages of a file. Dirty ones it does not free: it
 * unlocks them, and goes on. The flush of other CPUs comes later, once for many.
 * Meanwhile the page may be written out, for which it is marked clean, and then
 * a CPU that has the old translation stores to it. Nothing marks it dirty again.
 *
 * Here a thread of a higher priority takes reclaim's CPU from it. As soon as
 * /proc/self/pagemap says that an entry is empty, it has the page written out.
 * A thread on the other CPU stores to the page then. Once reclaim has ended, the
 * file is synced, all that is clean is dropped, and the page is read. How often
 * the store is gone is printed, and the status is 1 then. With `unreclaimed`
 * the same is done to pages that nobody reclaims.
 *
 * Two CPUs, root, and a file system on a disk.
 */
#include "preempted.h"

#include <semaphore.h>


static bool reclaims;
static atomic_bool judges, holds;
static sem_t hold;
/* The page that is to be stored to, or none: all, while reclaim does not go on. */
static atomic_long chosen = NONE, passes, stores;
/* What was stored to each page in this round. */
static long stored[PAGES];
static long changes, lost;

static volatile long *word(long page)
{
	return (volatile long *)(map + page * PAGE);
}

/* Stores to all pages until reclaim begins, and then to those that are chosen. */
static void *storer(void *unused)
{
	/* A CPU that comes back to a program flushes what reclaim owes. */
	run_on(ACCESSES, 1);
	while (!atomic_load(&stop)) {
		long page = atomic_load(&chosen);

		if (atomic_load(&judges)) {
			usleep(200);
		} else if (page != NONE) {
			long value = atomic_load(&stores) + 1;

			*word(page) = value;
			stored[page] = value;
			atomic_store(&chosen, NONE);
			atomic_store(&stores, value);
		} else if (!atomic_load(&begun)) {
			for (page = 0; page < PAGES; page++)
				*word(page) = 0;
			atomic_fetch_add(&passes, 1);
			usleep(100);
		}
	}
	return unused;
}

/* Keeps reclaim from its CPU while the changer waits for the disk. */
static void *holder(void *unused)
{
	run_on(RECLAIM, 1);
	while (!atomic_load(&stop)) {
		double begin;

		sem_wait(&hold);
		begin = seconds();
		while (atomic_load(&holds) && seconds() < begin + 0.5)
			;
	}
	return unused;
}

static void change(long page)
{
	const unsigned int all = SYNC_FILE_RANGE_WAIT_BEFORE |
				 SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
	long before = atomic_load(&stores);
	double begin;

	atomic_store(&holds, true);
	sem_post(&hold);
	check(sync_file_range(fd, page * PAGE, PAGE, all), "sync_file_range");
	atomic_store(&chosen, page);
	begin = seconds();
	while (atomic_load(&stores) == before && seconds() < begin + 0.2)
		;
	changes++;
	atomic_store(&holds, false);
}

static void *changer(void *unused)
{
	long ns = 0, next = 0;

	run_on(RECLAIM, 2);
	while (!atomic_load(&stop)) {
		uint64_t times;
		long page;

		check(read(timer, &times, sizeof(times)) != sizeof(times), "timer");
		page = reclaims ? first_empty() : next++ % PAGES;
		if (!atomic_load(&begun)) {
			ns = 0;
		} else if (page != NONE) {
			change(page);
			ns = 0;
		} else {
			ns = wake_later(ns);
		}
	}
	return unused;
}

/* Writes out what the kernel knows to be dirty, drops all, and reads it again. */
static void judge(void)
{
	check(fdatasync(fd) || madvise(map, BYTES, MADV_DONTNEED), "fdatasync");
	check(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), "posix_fadvise");
	for (long page = 0; page < PAGES; page++) {
		if (stored[page] && *word(page) != stored[page])
			lost++;
		stored[page] = 0;
	}
}

static void *reclaimer(void *unused)
{
	unsigned int seed = 1;

	run_on(RECLAIM, 0);
	/* Of this thread alone. */
	setpriority(PRIO_PROCESS, 0, 19);
	while (!atomic_load(&stop)) {
		long before = atomic_load(&passes);

		while (atomic_load(&passes) < before + 4 && !atomic_load(&stop))
			usleep(200);
		atomic_store(&begun, true);
		wake_in(1 + rand_r(&seed) % 100000);
		if (reclaims)
			madvise(map, BYTES, MADV_PAGEOUT);
		else
			usleep(1000);
		while (atomic_load(&chosen) != NONE)
			usleep(500);
		atomic_store(&judges, true);
		judge();
		atomic_store(&begun, false);
		atomic_store(&judges, false);
	}
	return unused;
}

int main(int count, char **arguments)
{
	void *(*const RUN[])(void *) = { storer, changer, holder, reclaimer };
	static const char zeros[PAGE];
	pthread_t threads[4];

	reclaims = count == 3;
	if (count < 3 || count > 4) {
		fprintf(stderr, "usage: lost_write SECONDS FILE [unreclaimed]\n");
		return 2;
	}
	fd = open(arguments[2], O_RDWR | O_CREAT | O_TRUNC, 0600);
	check(fd < 0, arguments[2]);
	unlink(arguments[2]);
	/* One by one, or the file system has them in larger units. */
	for (long page = 0; page < PAGES; page++)
		check(pwrite(fd, zeros, PAGE, page * PAGE) != PAGE, "pwrite");
	check(fsync(fd), "fsync");
	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	check(map == MAP_FAILED || madvise(map, BYTES, MADV_RANDOM), "mmap");
	pagemap = open("/proc/self/pagemap", O_RDONLY);
	check(pagemap < 0, "/proc/self/pagemap");
	timer = timerfd_create(CLOCK_MONOTONIC, 0);
	check(timer < 0 || sem_init(&hold, 0, 0), "timerfd_create");
	for (int i = 0; i < 4; i++)
		check(pthread_create(&threads[i], NULL, RUN[i], NULL), "pthread_create");
	sleep(atoi(arguments[1]));
	atomic_store(&stop, true);
	pthread_join(threads[3], NULL);
	sem_post(&hold);
	wake_in(1);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	printf("lost_write: %ld changes, and %ld of them are gone\n", changes, lost);
	return lost != 0;
}
