// SPDX-License-Identifier: GPL-2.0-only
/*
 * No CPU reads an old page: changes of mapped pages, while they are reclaimed
 * and moved.
 *
 * Each slot is a page that some operation changes again and again, to a value or
 * to zero. Readers on all CPUs compare every load with what the operation
 * allows: nothing older than the last change that has returned, nothing newer
 * than the last that has begun. Meanwhile another thread has the pages reclaimed
 * and moved to another node, and a process fills the memory that was freed.
 *
 * Each operation runs in a process of its own, one after another.
 *
 * usage: lazy_unmap [SECONDS [FOLDER [OPERATION]]]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
/* Of linux/mempolicy.h: move pages that only this process maps. */
#define MOVE_OWN	2

#define PAGE		4096L
#define SLOTS		64
/* Pages from slot to slot: a fault maps pages around it, but not so far. */
#define STRIDE		16
/* So many slots are read and changed for so many rounds of reclaim. */
#define NEAR		8
#define ROUNDS		8
/* Threads that change slots, each its own. */
#define CHANGERS	4
/* Readers at a time: under emulation, CPUs that spin keep others from working. */
#define READERS		3
/* So many fresh pages begin with what no slot may begin with. */
#define FILLED		256
#define NO_VALUE	255
#define CPUS_MAX	64

/* A page, and how often it was changed. */
struct slot {
	long number;
	atomic_long begun;
	atomic_long done;
};

/* A way to change pages, and the mapping in which they are changed and read. */
struct kind {
	const char *name;
	void (*change)(struct slot *slot, unsigned char value);
	int protection;
	int flags;
	int open_flags;
	/*
	 * In every other round one thread alone uses one page: it changes it many
	 * times without a pause, since a CPU that idles forgets its TLB. Pages are
	 * reclaimed after its first change, and the file is written out before its
	 * last, so that the page may be unmapped and clean then. Afterwards nobody
	 * uses the page until it may have been freed.
	 */
	bool bursts;
	/* A change to zero makes CPUs forget theirs, so it has rounds of its own. */
	bool flushes;
};

static const struct kind *kind;
static struct slot slots[SLOTS];
static int fd = -1;
static char *map;
/* The same pages of the file, if they are changed through another mapping. */
static char *alias;
static long cpus;
static atomic_bool stop;
static atomic_bool failed;
static atomic_long loads;
static atomic_long changes;
static atomic_long rounds;
/* The file was written out so often, and will have been at the end of a burst. */
static atomic_long syncs;
static atomic_long last_sync;

static void fail(const char *what)
{
	printf("# %s: %s\n", what, strerror(errno));
	atomic_store(&failed, true);
	atomic_store(&stop, true);
}

/*
 * What a page begins with after a change: zero after an odd one. One byte, since
 * the kernel may copy byte by byte.
 */
static unsigned char value_of(long change)
{
	return change % 2 ? 0 : 1 + change / 2 % 254;
}

static atomic_uchar *byte(const struct slot *slot)
{
	return (atomic_uchar *)(map + slot->number * PAGE);
}

static void write_page(long number, unsigned char value)
{
	static __thread unsigned char *page;

	if (!page)
		page = aligned_alloc(PAGE, PAGE);
	memset(page, 0, PAGE);
	page[0] = value;
	if (pwrite(fd, page, PAGE, number * PAGE) != PAGE)
		fail("pwrite");
}

/* By write(), through the page cache or past it. */
static void by_write(struct slot *slot, unsigned char value)
{
	write_page(slot->number, value);
}

/* Zero is a hole. */
static void by_hole(struct slot *slot, unsigned char value)
{
	if (value)
		write_page(slot->number, value);
	else if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			   slot->number * PAGE, PAGE))
		fail("fallocate");
}

static void by_store(struct slot *slot, unsigned char value)
{
	atomic_store(byte(slot), value);
}

/* Through another mapping, without a call. */
static void by_alias(struct slot *slot, unsigned char value)
{
	atomic_store((atomic_uchar *)(alias + slot->number * PAGE), value);
}

/* A private copy of the file's page, which is zero. */
static void by_copy(struct slot *slot, unsigned char value)
{
	if (value)
		atomic_store(byte(slot), value);
	else if (madvise((void *)byte(slot), PAGE, MADV_DONTNEED))
		fail("madvise");
}

/* Another page at the same address. */
static void by_mapping(struct slot *slot, unsigned char value)
{
	long number = slot->number + (value ? SLOTS * STRIDE : 0);

	if (value)
		write_page(number, value);
	if (mmap((void *)byte(slot), PAGE, PROT_READ, MAP_SHARED | MAP_FIXED,
		 fd, number * PAGE) == MAP_FAILED)
		fail("mmap");
}

/* A private copy that a child has, too. */
static void by_fork(struct slot *slot, unsigned char value)
{
	int status;
	pid_t child;

	by_copy(slot, value);
	child = fork();
	if (!child)
		_exit(*byte(slot) != value);
	if (child < 0 || waitpid(child, &status, 0) != child) {
		fail("fork");
	} else if (status) {
		errno = 0;
		fail("a child reads another value than its parent has stored");
	}
}

static const struct kind kinds[] = {
	{ "write", by_write, PROT_READ, MAP_SHARED },
	{ "direct", by_write, PROT_READ, MAP_SHARED, O_DIRECT },
	{ "hole", by_hole, PROT_READ, MAP_SHARED },
	{ "store", by_store, PROT_READ | PROT_WRITE, MAP_SHARED, .bursts = true },
	{ "alias", by_alias, PROT_READ, MAP_SHARED },
	{ "copy", by_copy, PROT_READ | PROT_WRITE, MAP_PRIVATE, .flushes = true },
	{ "mapping", by_mapping, PROT_READ, MAP_SHARED, .flushes = true },
	{ "fork", by_fork, PROT_READ | PROT_WRITE, MAP_PRIVATE, .flushes = true },
	{ "swap", by_store, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	  .bursts = true },
};

#define KINDS ((long)ARRAY_SIZE(kinds))

/* Whether one thread alone uses pages in this round. */
static bool is_burst(long round)
{
	return kind->bursts && round % 2;
}

/* The first of the slots of this round. */
static struct slot *first_slot(long round)
{
	return &slots[round / ROUNDS * NEAR % SLOTS];
}

/* The slot of the thread that is alone in this round. */
static struct slot *burst_slot(long round)
{
	return first_slot(round) + round / 2 % NEAR;
}

static void check(struct slot *slot)
{
	long done = atomic_load(&slot->done), change;
	unsigned char value = atomic_load(byte(slot));
	long begun = atomic_load(&slot->begun);

	for (change = done; change <= begun; change++)
		if (value == value_of(change))
			return;
	if (atomic_exchange(&failed, true))
		return;
	printf("# page %ld on CPU %d: read %d, allowed is %d, or changes %ld to %ld\n",
	       slot->number, sched_getcpu(), value, value_of(done), done, begun);
	atomic_store(&stop, true);
}

/* Up to a tenth of a second, but mostly short. */
static long random_length(unsigned int *seed)
{
	return rand_r(seed) % (1 << rand_r(seed) % 18);
}

static void change(struct slot *slot)
{
	long next = atomic_load(&slot->begun) + 1;

	/* It maps the page. Other changes must also find pages without a PTE. */
	if (kind->bursts)
		check(slot);
	atomic_store(&slot->begun, next);
	kind->change(slot, value_of(next));
	atomic_store(&slot->done, next);
	atomic_fetch_add(&changes, 1);
}

/* A page that this CPU has just read in is on no LRU list, so nobody reclaims it. */
static void list_pages(void)
{
	/* Behind the end of the file, where there is nothing to drop. */
	if (fd >= 0)
		posix_fadvise(fd, 1L << 40, PAGE, POSIX_FADV_DONTNEED);
}

static void *changer(void *argument)
{
	long number = (long)argument, last_burst = 0;
	unsigned int seed = number;

	while (!atomic_load(&stop)) {
		long chosen = rand_r(&seed) % (NEAR / CHANGERS);
		long round = atomic_load(&rounds);
		struct slot *slot = first_slot(round) + chosen * CHANGERS + number;

		/* Readers and reclaim come between changes. */
		usleep(kind->flushes ? random_length(&seed) : rand_r(&seed) % 200);
		if (kind->flushes &&
		    atomic_load(&slot->begun) % 2 != atomic_load(&rounds) % 2)
			continue;
		if (is_burst(round)) {
			if (round / 2 % CHANGERS != number || round == last_burst)
				continue;
			slot = burst_slot(round);
			last_burst = round;
		}
		do {
			change(slot);
		} while (round == last_burst && round == atomic_load(&rounds) &&
			 atomic_load(&syncs) < atomic_load(&last_sync) &&
			 !atomic_load(&stop));
		list_pages();
	}
	return NULL;
}

static void pin(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void *reader(void *argument)
{
	long cpu = (long)argument, count = 0;

	pin(cpu);
	/* Of this thread alone: the others are seldom ready, and go first. */
	setpriority(PRIO_PROCESS, 0, 19);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		long round = atomic_load_explicit(&rounds, memory_order_relaxed), i;

		if ((cpu + round / ROUNDS) % cpus >= READERS || is_burst(round)) {
			usleep(1000);
			continue;
		}
		for (i = 0; i < NEAR; i++)
			check(first_slot(round) + i);
		count += NEAR;
		if (count % (256 * NEAR) == 0)
			list_pages();
	}
	atomic_fetch_add(&loads, count);
	return NULL;
}

static void move_all(int node)
{
	int nodes[SLOTS], status[SLOTS], i;
	void *pages[SLOTS];

	for (i = 0; i < SLOTS; i++) {
		pages[i] = byte(&slots[i]);
		nodes[i] = node;
	}
	/* Where there is no other node, or no such call, pages stay. */
	syscall(SYS_move_pages, 0, (long)SLOTS, pages, nodes, status, MOVE_OWN);
}

/*
 * Of the whole node, as when memory is short. The other way, MADV_PAGEOUT, ends
 * with a flush of the pages that were used.
 */
static void reclaim_node(void)
{
	static const char amount[] = "1M";
	int node = open("/sys/devices/system/node/node0/reclaim", O_WRONLY);

	/* The kernel may have no such file, or reclaim less. */
	if (node < 0)
		return;
	if (write(node, amount, strlen(amount)) < 0 && errno != EAGAIN)
		fail("reclaim");
	close(node);
}

/* Clean pages can be reclaimed. Some become clean after they were unmapped. */
static void *syncer(void *unused)
{
	long count = 0;

	while (!atomic_load(&stop)) {
		if (fd >= 0)
			fdatasync(fd);
		atomic_fetch_add(&syncs, 1);
		usleep(is_burst(atomic_load(&rounds)) ? 1000 : 1000 << count++ % 8);
	}
	return NULL;
}

/* Waits for the first change of a burst, and chooses when the last one comes. */
static void begin_burst(unsigned int *seed)
{
	long before = atomic_load(&changes), i;

	for (i = 0; i < 100 && atomic_load(&changes) == before; i++)
		usleep(500);
	/* One may be under way. */
	atomic_store(&last_sync, atomic_load(&syncs) + 2 + rand_r(seed) % 4);
}

static void *reclaimer(void *unused)
{
	unsigned int seed = 1;

	while (!atomic_load(&stop)) {
		long round = atomic_load(&rounds);
		bool burst = is_burst(round + 1);

		atomic_store(&last_sync, LONG_MAX);
		atomic_store(&rounds, round + 1);
		if (burst)
			begin_burst(&seed);
		/* A hole may end madvise() early. */
		if (burst)
			madvise((void *)byte(burst_slot(round + 1)), PAGE, MADV_PAGEOUT);
		else if (round % 8 < 2)
			reclaim_node();
		else
			madvise((void *)byte(first_slot(round)), NEAR * STRIDE * PAGE,
				MADV_PAGEOUT);
		/*
		 * Of all lengths, up to that of several waits. After a burst
		 * nobody uses the page before its wait is over.
		 */
		usleep(1000 << (burst ? 6 : round % 8));
		if (round % 8 == 7)
			move_all(round / 8 % 2);
	}
	return NULL;
}

/*
 * Uses the memory that was freed. In a process of its own, because each end of a
 * mapping flushes the address space.
 */
static pid_t fill(void)
{
	pid_t child = fork();

	if (child < 0)
		fail("fork");
	if (child)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* A CPU to which it comes forgets the TLB of others. */
	pin(cpus - 1);
	for (;;) {
		char *fresh = mmap(NULL, FILLED * PAGE, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		long i;

		if (fresh == MAP_FAILED)
			_exit(1);
		for (i = 0; i < FILLED; i++)
			fresh[i * PAGE] = NO_VALUE;
		munmap(fresh, FILLED * PAGE);
		usleep(1000);
	}
}

static void make(const char *folder)
{
	char path[4096];
	long i;

	for (i = 0; i < SLOTS; i++) {
		slots[i].number = i * STRIDE;
		/* Change 1 was to zero. */
		atomic_store(&slots[i].begun, 1);
		atomic_store(&slots[i].done, 1);
	}
	if (!(kind->flags & MAP_ANONYMOUS)) {
		snprintf(path, sizeof(path), "%s/lazy_unmap.%s", folder, kind->name);
		fd = open(path, O_RDWR | O_CREAT | O_TRUNC | kind->open_flags, 0600);
		if (fd < 0) {
			fail(path);
			return;
		}
		unlink(path);
		for (i = 0; i < 2 * SLOTS; i++)
			write_page(i * STRIDE, 0);
		fsync(fd);
	}
	map = mmap(NULL, SLOTS * STRIDE * PAGE, kind->protection, kind->flags, fd, 0);
	if (kind->change == by_alias)
		alias = mmap(NULL, SLOTS * STRIDE * PAGE, PROT_READ | PROT_WRITE,
			     MAP_SHARED, fd, 0);
	if (map == MAP_FAILED || alias == MAP_FAILED)
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

static void start(pthread_t *thread, void *(*function)(void *), void *argument)
{
	/* Of the child that has this test: the process that fills memory ends with it. */
	if (pthread_create(thread, NULL, function, argument)) {
		perror("# pthread_create");
		exit(1);
	}
}

/* In a process of its own. Returns whether a reader has failed. */
static bool run(double seconds, const char *folder)
{
	pthread_t threads[CPUS_MAX + CHANGERS + 2];
	long waited = count_of("lazy_unmap_wait"), i;
	pid_t filler = fill();
	int n = 0;

	make(folder);
	for (i = 0; i < cpus && !failed; i++)
		start(&threads[n++], reader, (void *)i);
	for (i = 0; i < CHANGERS && !failed; i++)
		start(&threads[n++], changer, (void *)i);
	if (!failed)
		start(&threads[n++], reclaimer, NULL);
	if (!failed)
		start(&threads[n++], syncer, NULL);
	for (i = 0; i < 20 * seconds && !atomic_load(&stop); i++)
		usleep(50000);
	atomic_store(&stop, true);
	while (n)
		pthread_join(threads[--n], NULL);
	if (filler > 0) {
		kill(filler, SIGKILL);
		waitpid(filler, NULL, 0);
	}
	printf("# %ld changes, %ld loads on %ld CPUs\n", atomic_load(&changes),
	       atomic_load(&loads), cpus);
	if (waited >= 0)
		printf("# %ld pages waited\n", count_of("lazy_unmap_wait") - waited);
	return failed;
}

/* One line of the test's result. */
static void test(double seconds, const char *folder)
{
	int status = 1;
	pid_t child = fork();

	if (!child)
		exit(run(seconds, folder));
	if (child < 0 || waitpid(child, &status, 0) != child)
		ksft_print_msg("fork: %s\n", strerror(errno));
	ksft_test_result(!status, "%s\n", kind->name);
}

#define SWITCH	"/proc/sys/vm/lazy_unmap"

/* Returns what it was, or nothing if there is no switch that we may touch. */
static char turn(char on)
{
	int file = open(SWITCH, O_RDWR);
	char before = 0;

	if (file < 0)
		return 0;
	if (pread(file, &before, 1, 0) != 1 || pwrite(file, &on, 1, 0) != 1)
		before = 0;
	close(file);
	return before;
}

int main(int argc, char **argv)
{
	const char *folder = argc > 2 ? argv[2] : ".", *only = argc > 3 ? argv[3] : NULL;
	long seconds = argc > 1 ? atol(argv[1]) : 10, chosen = 0, i;
	char before;

	ksft_print_header();
	for (i = 0; i < KINDS; i++)
		chosen += !only || !strcmp(only, kinds[i].name);
	if (argc > 4 || seconds < 1 || !chosen) {
		for (i = 0; i < KINDS; i++)
			ksft_print_msg("operation %s\n", kinds[i].name);
		ksft_exit_fail_msg("usage: %s [SECONDS [FOLDER [OPERATION]]]\n", argv[0]);
	}
	cpus = sysconf(_SC_NPROCESSORS_ONLN);
	if (cpus > CPUS_MAX)
		cpus = CPUS_MAX;
	before = turn('1');
	if (!before)
		ksft_print_msg("%s: %s, the kernel is tested as it is\n", SWITCH,
			       strerror(errno));
	ksft_set_plan(chosen);
	for (i = 0; i < KINDS; i++) {
		kind = &kinds[i];
		if (!only || !strcmp(only, kind->name))
			test((double)seconds / chosen, folder);
	}
	if (before)
		turn(before);
	ksft_finished();
}
