// SPDX-License-Identifier: GPL-2.0-only
/*
 * No CPU reads an old page: changes of mapped file pages, while reclaim takes
 * the pages away.
 *
 * Each slot is a page that some operation changes again and again, to a number
 * or to zero.  Readers on all CPUs compare every load with what the operations
 * allow: nothing older than the last that has returned, nothing newer than the
 * last that has begun.  Other threads read a file larger than memory, so that the
 * kernel reclaims the pages all the time.
 *
 * usage: lazy_unmap [SECONDS [FOLDER]]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef MADV_COLD
#define MADV_COLD 20
#endif

#define PAGE		4096L
#define SLOTS		512
/* A reader reads a page so often before it chooses another. */
#define READS		16
#define CPUS_MAX	64

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

struct kind;

/* A page, and how often it was changed.  After an odd change it reads as zero. */
struct slot {
	const struct kind *kind;
	long number;
	atomic_long begun;
	atomic_long done;
};

/* A way to change pages: a file, and the mapping that readers use. */
struct kind {
	const char *name;
	void (*change)(struct slot *slot, long value);
	int protection;
	int flags;
	int open_flags;
	/* Filled in below. */
	int fd;
	char *map;
	struct slot slots[SLOTS];
	atomic_long changes;
};

static atomic_bool stop;
static atomic_bool failed;
static atomic_long loads;

static void fail(const char *what)
{
	fprintf(stderr, "# %s: %s\n", what, strerror(errno));
	atomic_store(&failed, true);
	atomic_store(&stop, true);
}

static atomic_long *word(const struct slot *slot)
{
	return (atomic_long *)(slot->kind->map + slot->number * PAGE);
}

static void store_page(int fd, long number, long value)
{
	static _Thread_local long *page;

	if (!page)
		page = aligned_alloc(PAGE, PAGE);
	memset(page, 0, PAGE);
	page[0] = value;
	if (pwrite(fd, page, PAGE, number * PAGE) != PAGE)
		fail("pwrite");
}

/* By write(), through the page cache or past it. */
static void by_write(struct slot *slot, long value)
{
	store_page(slot->kind->fd, slot->number, value);
}

/* Zero is a hole. */
static void by_hole(struct slot *slot, long value)
{
	if (value)
		store_page(slot->kind->fd, slot->number, value);
	else if (fallocate(slot->kind->fd,
			   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			   slot->number * PAGE, PAGE))
		fail("fallocate");
}

/* A private copy of the file's page, which is zero. */
static void by_copy(struct slot *slot, long value)
{
	if (value)
		*word(slot) = value;
	else if (madvise((void *)word(slot), PAGE, MADV_DONTNEED))
		fail("madvise");
}

/* Another page at the same address. */
static void by_mapping(struct slot *slot, long value)
{
	long number = value ? SLOTS + slot->number : slot->number;

	if (value)
		store_page(slot->kind->fd, number, value);
	if (mmap((void *)word(slot), PAGE, PROT_READ, MAP_SHARED | MAP_FIXED,
		 slot->kind->fd, number * PAGE) == MAP_FAILED)
		fail("mmap");
}

/* A private copy that a child has, too. */
static void by_fork(struct slot *slot, long value)
{
	int status;
	pid_t child;

	by_copy(slot, value);
	child = fork();
	if (!child)
		_exit(*word(slot) != value);
	if (child < 0 || waitpid(child, &status, 0) != child) {
		fail("fork");
	} else if (status) {
		errno = 0;
		fail("a child reads another value than its parent has stored");
	}
}

static struct kind kinds[] = {
	{ "write", by_write, PROT_READ, MAP_SHARED },
	{ "direct", by_write, PROT_READ, MAP_SHARED, O_DIRECT },
	{ "hole", by_hole, PROT_READ, MAP_SHARED },
	{ "copy", by_copy, PROT_READ | PROT_WRITE, MAP_PRIVATE },
	{ "mapping", by_mapping, PROT_READ, MAP_SHARED },
	{ "fork", by_fork, PROT_READ | PROT_WRITE, MAP_PRIVATE },
};
#define KINDS ARRAY_SIZE(kinds)

static void *changer(void *argument)
{
	struct kind *kind = argument;
	unsigned int seed = kind - kinds + 1;

	while (!atomic_load(&stop)) {
		struct slot *slot = &kind->slots[rand_r(&seed) % SLOTS];
		long next = atomic_fetch_add(&slot->begun, 1) + 1;

		kind->change(slot, next % 2 ? 0 : next);
		atomic_store(&slot->done, next);
		atomic_fetch_add(&kind->changes, 1);
		/* Readers and reclaim come between. */
		usleep(rand_r(&seed) % 1000);
	}
	return NULL;
}

static bool allowed(long value, long done, long begun)
{
	if (value)
		return value >= done && value <= begun;
	return done % 2 || begun > done;
}

static void check(struct slot *slot, long cpu)
{
	long done = atomic_load(&slot->done);
	long value = *word(slot);
	long begun = atomic_load(&slot->begun);

	if (allowed(value, done, begun))
		return;
	printf("# %s, page %ld on CPU %ld: read %ld, allowed are changes %ld to %ld\n",
	       slot->kind->name, slot->number, cpu, value, done, begun);
	atomic_store(&failed, true);
	atomic_store(&stop, true);
}

static void *reader(void *argument)
{
	unsigned int seed = (long)argument + 100;
	long count = 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((long)argument, &set);
	sched_setaffinity(0, sizeof(set), &set);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		struct slot *slot = &kinds[rand_r(&seed) % KINDS].slots[rand_r(&seed) % SLOTS];
		int i;

		for (i = 0; i < READS; i++, count++)
			check(slot, (long)argument);
		/* Leave some time for changes and reclaim. */
		if (count % (READS * 1024) == 0)
			usleep(1000);
	}
	atomic_fetch_add(&loads, count);
	return NULL;
}

/* Holes take no space on the disk, but page cache. */
static void *reclaimer(void *argument)
{
	static char buffer[1 << 20];
	long bytes = 2 * sysconf(_SC_PHYS_PAGES) * PAGE, at = 0;
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/lazy_unmap.holes", (const char *)argument);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || ftruncate(fd, bytes)) {
		fail(path);
		return NULL;
	}
	unlink(path);
	while (!atomic_load(&stop)) {
		long reads = at / (long)sizeof(buffer);
		struct kind *kind = &kinds[reads / 8 % KINDS];

		if (pread(fd, buffer, sizeof(buffer), at) < 0)
			fail("pread");
		/* The next to go.  Mappings that change may end the call early. */
		if (reads % 8 == 0)
			madvise(kind->map, SLOTS * PAGE, MADV_COLD);
		at = (at + (long)sizeof(buffer)) % bytes;
	}
	close(fd);
	return NULL;
}

static void make(struct kind *kind, const char *folder)
{
	char path[4096];
	long i;

	snprintf(path, sizeof(path), "%s/lazy_unmap.%s", folder, kind->name);
	kind->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | kind->open_flags, 0600);
	if (kind->fd < 0 || ftruncate(kind->fd, 2 * SLOTS * PAGE)) {
		fail(path);
		return;
	}
	unlink(path);
	for (i = 0; i < SLOTS; i++) {
		store_page(kind->fd, i, 0);
		kind->slots[i].kind = kind;
		kind->slots[i].number = i;
		/* Change 1 was to zero. */
		atomic_store(&kind->slots[i].begun, 1);
		atomic_store(&kind->slots[i].done, 1);
	}
	fsync(kind->fd);
	kind->map = mmap(NULL, SLOTS * PAGE, kind->protection, kind->flags,
			 kind->fd, 0);
	if (kind->map == MAP_FAILED)
		fail("mmap");
}

static long count_of(const char *name)
{
	FILE *file = fopen("/proc/vmstat", "r");
	char key[128];
	long value, found = -1;

	while (file && fscanf(file, "%127s %ld", key, &value) == 2)
		if (!strcmp(key, name))
			found = value;
	if (file)
		fclose(file);
	return found;
}

int main(int argc, char **argv)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN), seconds = 10, waited, i;
	const char *folder = argc > 2 ? argv[2] : ".";
	pthread_t threads[CPUS_MAX + KINDS + 1];
	int n = 0;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1)
		seconds = atol(argv[1]);
	if (argc > 3 || seconds < 1) {
		fprintf(stderr, "usage: %s [SECONDS [FOLDER]]\n", argv[0]);
		return 2;
	}
	if (cpus > CPUS_MAX)
		cpus = CPUS_MAX;
	printf("TAP version 13\n1..1\n");
	for (i = 0; i < (long)KINDS; i++)
		make(&kinds[i], folder);
	waited = count_of("lazy_unmap_wait");
	for (i = 0; i < cpus && !failed; i++)
		pthread_create(&threads[n++], NULL, reader, (void *)i);
	for (i = 0; i < (long)KINDS && !failed; i++)
		pthread_create(&threads[n++], NULL, changer, &kinds[i]);
	if (!failed)
		pthread_create(&threads[n++], NULL, reclaimer, (void *)folder);
	for (i = 0; i < 10 * seconds && !atomic_load(&stop); i++)
		usleep(100000);
	atomic_store(&stop, true);
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	for (i = 0; i < (long)KINDS; i++)
		printf("# %s: %ld changes\n", kinds[i].name, atomic_load(&kinds[i].changes));
	if (waited >= 0)
		printf("# %ld pages waited\n", count_of("lazy_unmap_wait") - waited);
	printf("# %ld loads on %ld CPUs\n", atomic_load(&loads), cpus);
	printf("%sok 1 no CPU reads an old page\n", failed ? "not " : "");
	return failed;
}
