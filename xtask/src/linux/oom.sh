#!/bin/busybox sh
# usage: oom
# Fills the machine of 512 MiB, and then a memory cgroup of 64 MiB, with mapped clean cache, and then with so many mebibytes
# that cannot be reclaimed. Prints the place, the size, how it ended, and how many were killed.
echo 1 > /proc/sys/vm/overcommit_memory
kills() {
    awk '$1 == "oom_kill" { print $2 }' /proc/vmstat
}
try() {
    before=$(kills)
    guest_loads fill 4 $(($2 * 64)) 2 /dev/vda $3 > /tmp/fill 2>&1
    status=$?
    echo "oom $1 $2 $status $(($(kills) - before))"
}
for size in 256 384 416 432 448 464 480 544; do try machine $size 32768; done
mkdir -p /sys/fs/cgroup
mount -t cgroup2 none /sys/fs/cgroup
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
mkdir /sys/fs/cgroup/limited
echo 64M > /sys/fs/cgroup/limited/memory.max || exit 2
echo $$ > /sys/fs/cgroup/limited/cgroup.procs
for size in 32 48 56 60 62 64 72; do try cgroup $size 6144; done
