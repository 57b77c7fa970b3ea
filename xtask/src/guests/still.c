/*
 * Preloaded into QEMU, this stops the clock by which QEMU chooses the sizes of its TLBs. A guest notices what
 * they have forgotten: it faults, and accessed bits are set again. So boots with one seed would differ.
 */
#include <sys/time.h>

int gettimeofday(struct timeval *restrict time, void *restrict zone)
{
	(void)zone;
	time->tv_sec = 1000000000;
	time->tv_usec = 0;
	return 0;
}
