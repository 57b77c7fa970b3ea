#!/bin/busybox sh
# usage: oom [PLACE PAGES SIZE...]
# Fills memory with mapped clean cache, four times so many pages, and then with so many mebibytes that cannot be reclaimed, for
# each size: that of the machine, of 512 MiB, and that of a memory cgroup of 64 MiB, unless a place is named. Prints the place,
# the size, how it ended, and how many were killed.
if [ $# = 0 ]; then
    echo 1 > /proc/sys/vm/overcommit_memory
    oom machine 32768 256 384 416 432 448 464 480 544 || exit
    exec limited 64 oom cgroup 6144 32 48 56 60 62 64 72
fi
place=$1
pages=$2
shift 2
kills() {
    awk '$1 == "oom_kill" { print $2 }' /proc/vmstat
}
for size; do
    before=$(kills)
    guest_loads fill 4 $((size * 64)) 2 /dev/nullb0 "$pages" > /tmp/fill 2>&1
    status=$?
    echo "oom $place $size $status $(($(kills) - before))"
done
