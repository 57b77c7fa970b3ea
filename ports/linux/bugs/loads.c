// SPDX-License-Identifier: GPL-2.0
/*
 * Loads that change page tables while other CPUs use what is mapped.
 *
 * usage: bug_loads LOAD SECONDS
 *
 * Four CPUs, two nodes and room to swap. A load changes mappings on CPU 0,
 * perhaps with help on others, while CPU 1 loads from the pages or stores to
 * them. No load checks anything. Needs root.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE 4096UL
#define HUGE (512 * PAGE)
#define RW (PROT_READ | PROT_WRITE)

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static volatile int stop;
static __thread sigjmp_buf fault;

static void check(int failed, const char *what)
{
	if (failed) {
		perror(what);
		_exit(2);
	}
}

static void on_fault(int signal)
{
	(void)signal;
	siglongjmp(fault, 1);
}

static void on_alarm(int signal)
{
	(void)signal;
	stop = 1;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	check(sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
}

static void write_to(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	check(fd < 0 || write(fd, text, strlen(text)) < 0, path);
	close(fd);
}

/* Anonymous memory, or a file's, at a multiple of its alignment. */
static char *map_at(size_t bytes, size_t align, int flags, int fd)
{
	char *at = mmap(NULL, bytes + align, PROT_NONE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	check(at == MAP_FAILED, "mmap");
	at = (char *)(((unsigned long)at + align - 1) & ~(align - 1));
	flags |= MAP_FIXED | (fd < 0 ? MAP_ANONYMOUS : 0);
	check(mmap(at, bytes, RW, flags, fd, 0) == MAP_FAILED, "mmap");
	return at;
}

static char *map(size_t bytes)
{
	char *at = map_at(bytes, HUGE, MAP_PRIVATE, -1);

	madvise(at, bytes, MADV_NOHUGEPAGE);
	return at;
}

static void store(char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		*(volatile char *)(at + i) = 1;
}

static void load(char *at, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += PAGE)
		(void)*(volatile char *)(at + i);
}

/* What a thread does again and again. */
struct job {
	void (*run)(struct job *job);
	char *at;
	size_t bytes;
	int cpu;
	int fd;
};

static void *loop(void *arg)
{
	struct job *job = arg;

	pin(job->cpu);
	while (!stop)
		job->run(job);
	return NULL;
}

static void begin(int cpu, void (*run)(struct job *), char *at, size_t bytes,
		  int fd)
{
	struct job *job = malloc(sizeof(*job));
	pthread_t thread;

	*job = (struct job){ run, at, bytes, cpu, fd };
	check(pthread_create(&thread, NULL, loop, job), "pthread_create");
}

/* The same in a process of its own. */
static void begin_process(int cpu, void (*run)(struct job *), char *at,
			  size_t bytes, int fd)
{
	pid_t child = fork();

	check(child < 0, "fork");
	if (child)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* A thread whose TLS lies where none of the parent's is. */
	check(mmap(NULL, 1UL << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS |
		   MAP_NORESERVE, -1, 0) == MAP_FAILED, "mmap");
	begin(cpu, run, at, bytes, fd);
	for (;;)
		pause();
}

/* Loads from each page, or stores to it; a page that has gone is left out. */
static void loads(struct job *job)
{
	static __thread volatile size_t i;

	for (i = 0; i < job->bytes; i += PAGE)
		if (!sigsetjmp(fault, 1))
			load(job->at + i, PAGE);
}

static void stores(struct job *job)
{
	static __thread volatile size_t i;

	for (i = 0; i < job->bytes; i += PAGE)
		if (!sigsetjmp(fault, 1))
			store(job->at + i, PAGE);
}

/* The kernel clears pages. */
static void clears(struct job *job)
{
	char *at = mmap(NULL, job->bytes, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(at == MAP_FAILED, "mmap");
	store(at, job->bytes);
	munmap(at, job->bytes);
}

static void zaps(struct job *job)
{
	store(job->at, job->bytes);
	madvise(job->at, job->bytes, MADV_DONTNEED);
}

static void zaps_and_stores(struct job *job)
{
	madvise(job->at, job->bytes, MADV_DONTNEED);
	store(job->at, job->bytes);
}

/* Pages go to the other node and back. */
static void moves(struct job *job)
{
	enum { MOST = 512 };
	void *pages[MOST];
	int nodes[MOST], status[MOST];
	static int node;

	node = !node;
	for (size_t at = 0; at < job->bytes; at += MOST * PAGE) {
		size_t count = (job->bytes - at) / PAGE;

		count = count < MOST ? count : MOST;
		for (size_t i = 0; i < count; i++) {
			pages[i] = job->at + at + i * PAGE;
			nodes[i] = node;
		}
		syscall(SYS_move_pages, 0, count, pages, nodes, status, 2);
	}
}

static int file(size_t bytes)
{
	int fd = memfd_create("load", 0);

	check(fd < 0 || ftruncate(fd, bytes), "memfd_create");
	return fd;
}

/* A page of the file is freed, and the kernel clears it for another use. */
static void punches(struct job *job)
{
	static unsigned int seed;
	off_t at = (rand_r(&seed) % (job->bytes / PAGE)) * PAGE;

	fallocate(job->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, PAGE);
	for (int i = 0; i < 4; i++)
		clears(&(struct job){ .bytes = PAGE });
	check(pwrite(job->fd, "", 1, at) != 1, "pwrite");
}

static void syncs(struct job *job)
{
	check(fsync(job->fd), "fsync");
}

/* The loads. Each sets itself up, and returns what CPU 0 does. */

static char *region;
static char *second;
static size_t bytes;
static int fd;

static void zap(void)
{
	zaps(&(struct job){ .at = region, .bytes = bytes });
}

/* Stores, since each page that was read first would be flushed once more. */
static void begin_zap(void)
{
	bytes = 4 << 20;
	region = map(bytes);
	begin_process(0, clears, NULL, 1 << 20, -1);
	begin_process(2, clears, NULL, 1 << 20, -1);
	begin(1, stores, region, 64 * PAGE, -1);
}

static void begin_zap_few(void)
{
	bytes = 16 * PAGE;
	region = map(2 * HUGE) + HUGE - 8 * PAGE;
	begin(1, loads, region, bytes, -1);
}

static void zap_store(void)
{
	zaps_and_stores(&(struct job){ .at = region, .bytes = bytes });
}

/* Many tables take long; a second thread needs pages of the first. */
static void zap_tables(void)
{
	for (size_t i = 0; i < bytes; i += HUGE)
		store(region + i, 32 * PAGE);
	madvise(region, bytes, MADV_DONTNEED);
}

static void zaps_a_page(struct job *job)
{
	static unsigned int seed;
	char *at = job->at + (rand_r(&seed) % (job->bytes / PAGE)) * PAGE;

	madvise(at, PAGE, MADV_DONTNEED);
	store(at, PAGE);
}

static void begin_zap_two(void)
{
	bytes = 8 * HUGE;
	region = map(bytes);
	begin(2, zaps_a_page, region, 32 * PAGE, -1);
	begin(1, stores, region, 32 * PAGE, -1);
}

static void begin_zap_many(void)
{
	bytes = 8 * PAGE;
	region = map(HUGE);
	begin(2, zaps_and_stores, region + bytes, bytes, -1);
	begin(3, zaps_and_stores, region + 2 * bytes, bytes, -1);
	begin(1, stores, region, 3 * bytes, -1);
}

static void begin_zap_huge(void)
{
	/* The kernel has none by itself where memory is below 512 MiB. */
	write_to("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
	bytes = 4 * HUGE;
	region = map_at(bytes, HUGE, MAP_PRIVATE, -1);
	check(madvise(region, bytes, MADV_HUGEPAGE), "MADV_HUGEPAGE");
	begin(1, loads, region, bytes, -1);
}

static void swap_places(void)
{
	check(mremap(region, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		     second) == MAP_FAILED, "mremap");
	check(mremap(second, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
		     region) == MAP_FAILED, "mremap");
}

/* Not by whole tables: the places differ by a page. */
static void begin_mremap(void)
{
	bytes = 4 * HUGE;
	fd = file(bytes);
	second = map(bytes + HUGE) + PAGE;
	region = map_at(bytes, HUGE, MAP_SHARED, fd);
	store(region, bytes);
	/* The first pages, which have long moved when the last have. */
	begin_process(2, punches, NULL, 32 * PAGE, fd);
	begin(1, loads, region, 32 * PAGE, -1);
	begin(3, loads, second, 32 * PAGE, -1);
}

static void begin_mremap_huge(void)
{
	bytes = 2 * HUGE;
	second = map(bytes);
	region = map(bytes);
	store(region, bytes);
	begin(1, loads, region, bytes, -1);
	begin(2, loads, second, bytes, -1);
}

/* Clean pages of a file are reclaimed; others take their places. */
static void replace(void)
{
	static unsigned int seed;
	size_t i = (rand_r(&seed) % (bytes / PAGE)) * PAGE;

	check(mmap(region + i, PAGE, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == MAP_FAILED, "mmap");
	store(region + i, PAGE);
	check(mmap(region + i, PAGE, RW, MAP_PRIVATE | MAP_FIXED, fd, i) ==
	      MAP_FAILED, "mmap");
}

/* By the group, since madvise() would keep the mappings as they are. */
static void reclaims(struct job *job)
{
	static const char *const WHAT = "32K swappiness=0";

	(void)!write(job->fd, WHAT, strlen(WHAT));
}

static void begin_reclaim(void)
{
	int group;

	mkdir("/tmp/groups", 0700);
	/* An earlier load may have done so. */
	check(mount("cgroup2", "/tmp/groups", "cgroup2", 0, NULL) &&
	      errno != EBUSY, "cgroup2");
	write_to("/tmp/groups/cgroup.subtree_control", "+memory");
	mkdir("/tmp/groups/load", 0700);
	write_to("/tmp/groups/load/cgroup.procs", "0");
	group = open("/tmp/groups/load/memory.reclaim", O_WRONLY);
	check(group < 0, "memory.reclaim");
	bytes = 16 * PAGE;
	fd = open("/mnt/load", O_RDWR | O_CREAT | O_TRUNC, 0600);
	/* Holes: who faults does not sleep, which would flush. */
	check(fd < 0 || ftruncate(fd, bytes), "/mnt/load");
	region = map_at(bytes, HUGE, MAP_PRIVATE, fd);
	check(madvise(region, bytes, MADV_RANDOM), "MADV_RANDOM");
	begin(2, reclaims, NULL, 0, group);
	begin(3, reclaims, NULL, 0, group);
	begin(1, loads, region, bytes, -1);
}

static void protect(void)
{
	mprotect(region, bytes, PROT_NONE);
	mprotect(region, bytes, RW);
}

/* The pages that move are in the first of many tables, which take long. */
static void begin_protnone(void)
{
	bytes = 16 * HUGE;
	region = map(bytes);
	store(region, bytes);
	begin(2, moves, region, 2 * PAGE, -1);
	begin(3, zaps_and_stores, map(PAGE), PAGE, -1);
	begin(1, stores, region, 2 * PAGE, -1);
}

static void protect_from_stores(void)
{
	mprotect(region, bytes, PROT_READ);
	mprotect(region, bytes, RW);
}

static void begin_mprotect(void)
{
	bytes = 16 * PAGE;
	region = map(bytes);
	begin(1, stores, region, bytes, -1);
}

static void move(void)
{
	moves(&(struct job){ .at = region, .bytes = bytes });
}

static void begin_migrate(void)
{
	bytes = 128 * PAGE;
	region = map(bytes);
	store(region, bytes);
	begin(1, stores, region, bytes, -1);
}

static void wait_for_alarm(void)
{
	pause();
}

static void begin_punch(void)
{
	bytes = 64 * PAGE;
	fd = file(bytes);
	region = map_at(bytes, HUGE, MAP_SHARED, fd);
	begin_process(2, punches, NULL, bytes, fd);
	begin(1, loads, region, bytes, -1);
}

/* The other thread sleeps while the pages go. */
static int wake[2], asleep[2];

static void sleeps(struct job *job)
{
	char byte = 0;

	loads(job);
	check(write(asleep[1], &byte, 1) != 1 || read(wake[0], &byte, 1) != 1,
	      "pipe");
}

static void zap_asleep(void)
{
	char byte = 0;

	check(read(asleep[0], &byte, 1) != 1, "pipe");
	/* Until its CPU has nothing to do. */
	sched_yield();
	zap_store();
	check(write(wake[1], &byte, 1) != 1, "pipe");
}

static void begin_sleep(void)
{
	bytes = 16 * PAGE;
	region = map(bytes);
	check(pipe(wake) || pipe(asleep), "pipe");
	begin(1, sleeps, region, bytes, -1);
}

static void collapse(void)
{
	madvise(region, bytes, MADV_NOHUGEPAGE);
	zap_store();
	madvise(region, bytes, MADV_HUGEPAGE);
	madvise(region, bytes, MADV_COLLAPSE);
}

static void begin_collapse(void)
{
	bytes = HUGE;
	region = map(bytes);
	begin(1, stores, region, bytes, -1);
}

/* A huge page of a file is mapped by small entries, and then as a whole. */
static void promote(void)
{
	check(mprotect(region, PAGE, PROT_READ), "mprotect");
	load(region, bytes);
	for (int i = 0; i < 20; i++)
		sched_yield();
	check(mprotect(region, PAGE, RW), "mprotect");
	madvise(region, bytes, MADV_COLLAPSE);
	madvise(region, bytes, MADV_DONTNEED);
}

static void begin_promote(void)
{
	bytes = HUGE;
	fd = file(bytes);
	region = map_at(bytes, HUGE, MAP_SHARED, fd);
	store(region, bytes);
	check(madvise(region, bytes, MADV_COLLAPSE), "MADV_COLLAPSE");
	begin(1, loads, region, bytes, -1);
}

/* Huge pages of a file, whose table two processes share. */
static void unshare_table(void)
{
	for (int i = 0; i < 4; i++)
		load(region + i * HUGE, PAGE);
	sched_yield();
	madvise(region, bytes, MADV_DONTNEED);
}

static void huge_loads(struct job *job)
{
	for (int i = 0; i < 4; i++)
		load(job->at + i * HUGE, PAGE);
}

static void begin_unshare(void)
{
	write_to("/proc/sys/vm/nr_hugepages", "8");
	bytes = 1UL << 30;
	fd = memfd_create("load", MFD_HUGETLB);
	check(fd < 0 || ftruncate(fd, bytes), "memfd_create");
	region = map_at(bytes, bytes, MAP_SHARED | MAP_NORESERVE, fd);
	begin_process(2, huge_loads, region, bytes, -1);
	begin(1, huge_loads, region, bytes, -1);
}

/* The kernel's own memory: each thread has a stack of vmalloc(). */
static void *meets(void *barrier)
{
	pthread_barrier_wait(barrier);
	return NULL;
}

static void makes_threads(struct job *job)
{
	enum { MOST = 32 };
	pthread_barrier_t barrier;
	pthread_t threads[MOST];

	(void)job;
	/* CPUs keep a few stacks of threads that end. */
	pthread_barrier_init(&barrier, NULL, MOST);
	for (int i = 0; i < MOST; i++)
		check(pthread_create(&threads[i], NULL, meets, &barrier),
		      "pthread_create");
	for (int i = 0; i < MOST; i++)
		pthread_join(threads[i], NULL);
}

static void make_threads(void)
{
	makes_threads(NULL);
}

static void begin_threads(void)
{
	for (int cpu = 1; cpu < 4; cpu++)
		begin_process(cpu, makes_threads, NULL, 0, -1);
}

static void fork_child(void)
{
	pid_t child = fork();

	check(child < 0, "fork");
	if (!child) {
		load(region, bytes);
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static void begin_fork(void)
{
	bytes = 64 * PAGE;
	region = map(bytes);
	store(region, bytes);
	begin(1, stores, region, bytes, -1);
	begin(2, loads, region, bytes, -1);
}

static void clear_soft_dirty(void)
{
	write_to("/proc/self/clear_refs", "4");
}

static void begin_soft_dirty(void)
{
	bytes = 64 * PAGE;
	region = map(bytes);
	begin(1, stores, region, bytes, -1);
}

static void begin_ksm(void)
{
	write_to("/sys/kernel/mm/ksm/pages_to_scan", "1000");
	write_to("/sys/kernel/mm/ksm/run", "1");
	bytes = 64 * PAGE;
	region = map(bytes);
	store(region, bytes);
	check(madvise(region, bytes, MADV_MERGEABLE), "MADV_MERGEABLE");
	begin(1, stores, region, bytes, -1);
}

static void sync_file(void)
{
	syncs(&(struct job){ .fd = fd });
}

static void begin_msync(void)
{
	bytes = 64 * PAGE;
	fd = open("/mnt/load", O_RDWR | O_CREAT | O_TRUNC, 0600);
	check(fd < 0 || ftruncate(fd, bytes), "/mnt/load");
	region = map_at(bytes, HUGE, MAP_SHARED, fd);
	store(region, bytes);
	begin(1, stores, region, bytes, -1);
}

/* Unmapped, while another writes the pages out. */
static void unmap_dirty(void)
{
	store(region, bytes);
	check(mmap(region, bytes, RW, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED,
	      "mmap");
}

static void begin_unmap_dirty(void)
{
	begin_msync();
	begin(2, syncs, NULL, 0, fd);
}

static void write_protect(void)
{
	struct uffdio_writeprotect range = {
		.range = { (unsigned long)region, bytes },
		.mode = UFFDIO_WRITEPROTECT_MODE_WP,
	};

	check(ioctl(fd, UFFDIO_WRITEPROTECT, &range), "UFFDIO_WRITEPROTECT");
}

static void begin_uffd(void)
{
	struct uffdio_api api = { .api = UFFD_API, .features = 1 << 15 };
	struct uffdio_register range = { .mode = UFFDIO_REGISTER_MODE_WP };

	bytes = 64 * PAGE;
	region = map(bytes);
	store(region, bytes);
	fd = syscall(SYS_userfaultfd, 0);
	/* The fault of a store takes the protection away by itself. */
	check(fd < 0 || ioctl(fd, UFFDIO_API, &api), "userfaultfd");
	range.range.start = (unsigned long)region;
	range.range.len = bytes;
	check(ioctl(fd, UFFDIO_REGISTER, &range), "UFFDIO_REGISTER");
	begin(1, stores, region, bytes, -1);
}

static void free_lazily(void)
{
	store(region, bytes);
	madvise(region, bytes, MADV_FREE);
	madvise(region, bytes, MADV_PAGEOUT);
}

static const struct {
	const char *name;
	void (*begin)(void);
	void (*step)(void);
} LOADS[] = {
	{ "zap", begin_zap, zap },
	{ "zap_few", begin_zap_few, zap },
	{ "zap_two", begin_zap_two, zap_tables },
	{ "zap_many", begin_zap_many, zap_store },
	{ "zap_huge", begin_zap_huge, zap },
	{ "mremap", begin_mremap, swap_places },
	{ "mremap_huge", begin_mremap_huge, swap_places },
	{ "reclaim", begin_reclaim, wait_for_alarm },
	{ "reclaim_replace", begin_reclaim, replace },
	{ "protnone", begin_protnone, protect },
	{ "mprotect", begin_mprotect, protect_from_stores },
	{ "migrate", begin_migrate, move },
	{ "punch", begin_punch, wait_for_alarm },
	{ "sleep", begin_sleep, zap_asleep },
	{ "collapse", begin_collapse, collapse },
	{ "promote", begin_promote, promote },
	{ "unshare", begin_unshare, unshare_table },
	{ "threads", begin_threads, make_threads },
	{ "fork", begin_fork, fork_child },
	{ "soft_dirty", begin_soft_dirty, clear_soft_dirty },
	{ "ksm", begin_ksm, wait_for_alarm },
	{ "msync", begin_msync, sync_file },
	{ "unmap_dirty", begin_unmap_dirty, unmap_dirty },
	{ "uffd", begin_uffd, write_protect },
	{ "lazyfree", begin_mprotect, free_lazily },
};

int main(int count, char **arguments)
{
	volatile unsigned long steps = 0;

	if (count != 3) {
		fprintf(stderr, "usage: bug_loads LOAD SECONDS\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof(LOADS) / sizeof(LOADS[0]); i++) {
		if (strcmp(LOADS[i].name, arguments[1]))
			continue;
		signal(SIGSEGV, on_fault);
		signal(SIGBUS, on_fault);
		signal(SIGALRM, on_alarm);
		pin(0);
		LOADS[i].begin();
		alarm(atoi(arguments[2]));
		for (; !stop; steps++)
			if (!sigsetjmp(fault, 1))
				LOADS[i].step();
		printf("%s: %lu steps\n", arguments[1], steps);
		fflush(stdout);
		_exit(0);
	}
	fprintf(stderr, "bug_loads has no load %s\n", arguments[1]);
	return 2;
}
