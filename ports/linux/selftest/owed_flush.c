// SPDX-License-Identifier: GPL-2.0
/*
 * What a CPU reads while reclaim owes it a TLB flush.
 *
 * Reclaim clears the PTEs of many folios and then flushes once. Whatever
 * becomes of an address in between, no CPU may use the old page after that.
 *
 * One thread reclaims PAGES pages by MADV_PAGEOUT, and has its own CPU. The main
 * thread, on another one, keeps the first page in its TLB. As soon as that page
 * has no PTE, it has the kernel change what is at the address, and loads. A system
 * call returns before the load, so the load must see what the call did.
 *
 * Reclaim would be faster than that. Each page is covered, but not mapped, by many
 * other VMAs, in all of which reclaim looks for it. The one that maps it is last.
 *
 * usage: owed_flush [FOLDER [CHANGES [TEST]]]
 *
 * The folder is of a file system on a disk. With the number of a test it runs
 * that one alone.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "kselftest.h"

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif
#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#define MADV_GUARD_REMOVE 103
#endif
#ifndef UFFDIO_POISON
struct uffdio_poison {
	struct uffdio_range range;
	__u64 mode;
	__s64 updated;
};

#define UFFDIO_POISON _IOWR(UFFDIO, 0x08, struct uffdio_poison)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define TMPFS_MAGIC 0x01021994

/* Fewer than stock reclaim would flush for before it has seen them all. */
#define PAGES 30

/* The bit of /proc/self/pagemap. */
#define PRESENT 63

/* So often it is looked whether a page leaves the page cache. */
#define LOOKS 100

/* Every page holds its old content before a round. */
#define OLD 0
#define NEW 1
/* Nothing has this content by itself. */
#define OTHER 2

static long page, bytes;
/* A file on a disk, a memfd, /proc/self/pagemap, /proc/self/mem. */
static int disk = -1, memory = -1, pagemap = -1, mem = -1, uffd = -1;
/* What is reclaimed. Its first page is the one that matters. */
static char *at;

/* So many changes of each kind. */
static int rounds = 10;

static sem_t begin;
static atomic_bool ended;
static sigjmp_buf fault;
static atomic_bool loads;

static void on_fault(int number)
{
	if (!atomic_load(&loads))
		_exit(KSFT_FAIL);
	siglongjmp(fault, number);
}

static void store(char *to, char value)
{
	__atomic_store_n(to, value, __ATOMIC_RELAXED);
}

/* What a load of the first page sees: a byte, or the negative signal. */
static int load(void)
{
	int value;

	atomic_store(&loads, true);
	value = -sigsetjmp(fault, 1);
	if (!value)
		value = __atomic_load_n(at, __ATOMIC_RELAXED);
	atomic_store(&loads, false);
	return value;
}

static bool is_present(void)
{
	uint64_t entry = 0;

	if (pread(pagemap, &entry, sizeof(entry),
		  (unsigned long)at / page * sizeof(entry)) != sizeof(entry))
		ksft_exit_fail_perror("/proc/self/pagemap");
	return entry >> PRESENT & 1;
}

/* Whether the page cache has the first page, if it is one of a file. */
static bool is_cached(void)
{
	unsigned char is_cached = 0;

	return !mincore(at, page, &is_cached) && is_cached & 1;
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		ksft_exit_fail_perror("sched_setaffinity");
}

/* Without the right to a priority a busy machine hides more. */
static void set_priority(int policy, int priority)
{
	const struct sched_param param = { .sched_priority = priority };

	sched_setscheduler(0, policy, &param);
}

/*
 * While the main thread sleeps, its CPU goes on with this address space: it would
 * catch up with the flush when it comes back from another.
 */
static void *spin(void *cpu)
{
	run_on((long)cpu);
	set_priority(SCHED_IDLE, 0);
	set_priority(SCHED_FIFO, 1);
	for (;;)
		;
	return NULL;
}

static void *reclaim(void *cpu)
{
	run_on((long)cpu);
	for (;;) {
		sem_wait(&begin);
		madvise(at, bytes, MADV_PAGEOUT);
		atomic_store(&ended, true);
	}
	return NULL;
}

/*
 * A kind of change. Its functions return 0, or a negative errno if the kernel has
 * no such thing.
 */
struct change {
	const char *name;
	/* What is reclaimed: of which file, or anonymous, and how it is mapped. */
	int *file;
	int flags;
	/* Before each round: makes all pages present, clean and old. */
	int (*prepare)(void);
	/* Once the first page has no PTE. */
	int (*act)(void);
	/* What is loaded then. */
	int expected;
	/* If what counts is loaded once reclaim has ended: what comes before. */
	int (*settle)(void);
};

/* Makes the pages of a file present by loads, whatever was there. */
static int touch(void)
{
	if (uffd >= 0)
		close(uffd);
	uffd = -1;
	madvise(at, bytes, MADV_GUARD_REMOVE);
	if (madvise(at, bytes, MADV_DONTNEED))
		return -errno;
	for (long offset = 0; offset < bytes; offset += page)
		__atomic_load_n(at + offset, __ATOMIC_RELAXED);
	return 0;
}

/* Pages of a hole are clean, and read without a wait. */
static int hole_of(int fd)
{
	if (fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes))
		return -errno;
	return touch();
}

static int hole(void)
{
	return hole_of(disk);
}

/* Writes the first page, as a whole: nothing needs to be read for that. */
static int write_first(char value)
{
	static char content[1 << 16];

	content[0] = value;
	return pwrite(disk, content, page, 0) == page ? 0 : -errno;
}

/* The first page has room on the disk. */
static int written(void)
{
	int result = write_first(OLD);

	if (result || fdatasync(disk))
		return result ? result : -errno;
	return touch();
}

static int store_by_write(void)
{
	return write_first(NEW);
}

static int store_direct(void)
{
	int result = -errno, fd;
	char path[64];
	void *new;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", disk);
	fd = open(path, O_WRONLY | O_DIRECT);
	if (fd < 0)
		return -errno;
	if (!posix_memalign(&new, page, page)) {
		memset(new, NEW, page);
		result = pwrite(fd, new, page, 0) == page ? 0 : -errno;
		free(new);
	}
	close(fd);
	return result;
}

static int store_private(void)
{
	char new = NEW;

	/* Not a store: the CPU would forget the old page at the fault. */
	return pwrite(mem, &new, 1, (off_t)(unsigned long)at) == 1 ? 0 : -errno;
}

static int install_guard(void)
{
	return madvise(at, page, MADV_GUARD_INSTALL) ? -errno : 0;
}

/* The first page is dirty, also in the TLB of this CPU. */
static int dirty(void)
{
	int result = written();

	store(at, OLD);
	return result;
}

static int store_cleaned(void)
{
	if (sync_file_range(disk, 0, page, SYNC_FILE_RANGE_WAIT_BEFORE |
			    SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER))
		return -errno;
	store(at, NEW);
	return 0;
}

/* Only what is on the disk remains. */
static int drop(void)
{
	if (fdatasync(disk) || madvise(at, bytes, MADV_DONTNEED) ||
	    posix_fadvise(disk, 0, 0, POSIX_FADV_DONTNEED))
		return -errno;
	return 0;
}

static int user_faults(void)
{
	struct uffdio_register area = {
		.range = { (unsigned long)at, bytes },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	/* A load that finds no page is to fail, not to wait. */
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_SIGBUS };

	uffd = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (uffd < 0)
		return -errno;
	if (ioctl(uffd, UFFDIO_API, &api) || ioctl(uffd, UFFDIO_REGISTER, &area))
		return -errno;
	return 0;
}

static int missing(void)
{
	int result = hole_of(memory);

	return result ? result : user_faults();
}

/* The page of userfaultfd that is to come is zero. */
static int missing_new(void)
{
	char new = NEW;

	if (pwrite(memory, &new, 1, 0) != 1)
		return -errno;
	touch();
	return user_faults();
}

static int copy(void)
{
	static char new[1 << 16];
	struct uffdio_copy copy = {
		.dst = (unsigned long)at, .src = (unsigned long)new, .len = page,
	};

	new[0] = NEW;
	return ioctl(uffd, UFFDIO_COPY, &copy) ? -errno : 0;
}

static int zero(void)
{
	struct uffdio_zeropage zero = { .range = { (unsigned long)at, page } };

	return ioctl(uffd, UFFDIO_ZEROPAGE, &zero) ? -errno : 0;
}

static int poison(void)
{
	struct uffdio_poison poison = { .range = { (unsigned long)at, page } };

	return ioctl(uffd, UFFDIO_POISON, &poison) ? -errno : 0;
}

static int freeable(void)
{
	for (long offset = 0; offset < bytes; offset += page)
		store(at + offset, OTHER);
	return madvise(at, bytes, MADV_FREE) ? -errno : 0;
}

static const struct change changes[] = {
	{ "write() to a shared file mapping",
	  &disk, MAP_SHARED, hole, store_by_write, NEW },
	{ "write() by O_DIRECT", &disk, MAP_SHARED, written, store_direct, NEW },
	{ "a store after writeback",
	  &disk, MAP_SHARED, dirty, store_cleaned, NEW, drop },
	{ "MADV_GUARD_INSTALL",
	  &disk, MAP_SHARED, hole, install_guard, -SIGSEGV },
	{ "a store to a private file mapping",
	  &disk, MAP_PRIVATE, hole, store_private, NEW },
	{ "UFFDIO_COPY", &memory, MAP_PRIVATE, missing, copy, NEW },
	{ "UFFDIO_POISON", &memory, MAP_PRIVATE, missing, poison, -SIGBUS },
	{ "UFFDIO_ZEROPAGE", &memory, MAP_PRIVATE, missing_new, zero, 0 },
	{ "a store to a page of MADV_FREE", NULL, 0, freeable, store_private, NEW },
};

/* So many other VMAs cover what is reclaimed, at first and at most. */
#define FEW 500
#define MANY 16000

static size_t area_bytes(void)
{
	return (MANY + 2) * bytes + page;
}

/*
 * Maps what is reclaimed as the last of many. Returns the area that they are in:
 * that of the call before, if it is given.
 */
static char *map(const struct change *change, char *area, int others)
{
	const int access = PROT_READ | PROT_WRITE;
	char *from;

	area = mmap(area, area_bytes(), PROT_NONE, (area ? MAP_FIXED : 0) |
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (area == MAP_FAILED)
		ksft_exit_fail_perror("mmap");
	at = area + others * bytes;
	if (change->file) {
		for (char *other = area; other <= at; other += bytes)
			if (mmap(other, bytes, access, MAP_FIXED | (other < at ?
				 MAP_SHARED : change->flags), *change->file, 0) != other)
				ksft_exit_fail_perror("mmap");
		madvise(at, bytes, MADV_RANDOM);
		return area;
	}
	/* A page more than is moved, or the VMA would leave its anon_vma. */
	from = mmap(at + bytes, bytes + page, access,
		    MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (from == MAP_FAILED || madvise(from, bytes + page, MADV_NOHUGEPAGE))
		ksft_exit_fail_perror("mmap");
	for (char *other = area; other <= at; other += bytes) {
		store(from, OLD);
		if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED |
			   MREMAP_DONTUNMAP, other) != other)
			ksft_exit_fail_perror("mremap");
	}
	return area;
}

/* What became of a round. */
struct outcome {
	/* The page had no PTE, and the change was made. */
	bool is_changed;
	/* Reclaim had ended when the CPU loaded. */
	bool is_late;
	bool is_old;
};

/* Returns 0, or a negative errno if the kernel has no such change. */
static int round_of(const struct change *change, struct outcome *outcome)
{
	int result = change->prepare(), value;

	if (result)
		return result;
	/* What this CPU has just made present is not on an LRU list yet. */
	madvise(at + bytes, page, MADV_COLD);
	load();
	atomic_store(&ended, false);
	sem_post(&begin);
	do {
		load();
	} while (is_present() && !atomic_load(&ended));
	/* Clean pages leave the page cache soon, or stay until the flush. */
	for (int i = 0; i < LOOKS && is_cached(); i++)
		;
	/* What reclaim need not unmap is changed all the same. */
	outcome->is_changed = change->settle || !is_present();
	if (outcome->is_changed)
		result = change->act();
	value = load();
	outcome->is_late = atomic_load(&ended);
	while (!atomic_load(&ended))
		;
	if (!result && change->settle) {
		result = change->settle();
		value = load();
	}
	outcome->is_old = outcome->is_changed && value != change->expected;
	return result;
}

static void run(const struct change *change)
{
	int tries = 0, changed = 0, late = 0, old = 0, others = FEW, result = 0;
	char *area = map(change, NULL, others);

	while (changed - late < rounds) {
		struct outcome outcome;

		result = round_of(change, &outcome);
		if (result)
			break;
		tries++;
		changed += outcome.is_changed;
		late += outcome.is_changed && outcome.is_late;
		old += outcome.is_old;
		if ((outcome.is_changed && !outcome.is_late) || tries % 4)
			continue;
		/* Reclaim was too fast, or it keeps the change waiting. */
		if (others == MANY)
			break;
		others *= 2;
		map(change, area, others);
	}
	munmap(area, area_bytes());
	if (result)
		ksft_test_result_skip("%s: %s\n", change->name, strerror(-result));
	else if (!changed)
		ksft_test_result_skip("%s: reclaim leaves the page alone\n", change->name);
	else
		ksft_test_result(!old, "%s: old after %d of %d changes, %d of them late, %d VMAs\n",
				 change->name, old, changed, late, others);
}

static int file_on_disk(const char *folder)
{
	struct statfs type;
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/owed_flush.XXXXXX", folder);
	fd = mkstemp(path);
	if (fd < 0 || fstatfs(fd, &type))
		ksft_exit_skip("%s: %s\n", path, strerror(errno));
	unlink(path);
	if (ftruncate(fd, bytes))
		ksft_exit_skip("%s: %s\n", path, strerror(errno));
	if (type.f_type == TMPFS_MAGIC)
		ksft_exit_skip("%s is a tmpfs, which has no clean pages\n", folder);
	return fd;
}

int main(int count, char **arguments)
{
	struct sigaction action = { .sa_handler = on_fault };
	pthread_t thread;
	cpu_set_t set;
	long cpu = 0, other;
	size_t test = count > 3 ? atoi(arguments[3]) : 0;

	ksft_print_header();
	if (count > 2)
		rounds = atoi(arguments[2]);
	if (rounds < 1 || test > ARRAY_SIZE(changes))
		ksft_exit_fail_msg("It takes 1 change or more, and has %zu tests\n",
				   ARRAY_SIZE(changes));
	page = sysconf(_SC_PAGESIZE);
	bytes = PAGES * page;
	if (sched_getaffinity(0, sizeof(set), &set) || CPU_COUNT(&set) < 2)
		ksft_exit_skip("It needs two CPUs\n");
	while (!CPU_ISSET(cpu, &set))
		cpu++;
	for (other = cpu + 1; !CPU_ISSET(other, &set); other++)
		;
	disk = file_on_disk(count > 1 ? arguments[1] : ".");
	memory = memfd_create("owed_flush", MFD_CLOEXEC);
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	if (memory < 0 || pagemap < 0 || mem < 0 || ftruncate(memory, bytes))
		ksft_exit_skip("memfd, pagemap or mem: %s\n", strerror(errno));
	if (sigaction(SIGSEGV, &action, NULL) || sigaction(SIGBUS, &action, NULL) ||
	    sem_init(&begin, 0, 0) ||
	    pthread_create(&thread, NULL, reclaim, (void *)other) ||
	    pthread_create(&thread, NULL, spin, (void *)cpu))
		ksft_exit_fail_perror("pthread_create");
	run_on(cpu);
	set_priority(SCHED_FIFO, 2);
	ksft_set_plan(test ? 1 : ARRAY_SIZE(changes));
	for (size_t i = 0; i < ARRAY_SIZE(changes); i++)
		if (!test || i == test - 1)
			run(&changes[i]);
	ksft_finished();
}
