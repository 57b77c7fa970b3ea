#!/bin/busybox sh
# usage: limited swap|MIB COMMAND...
# Runs the command with room to swap in compressed memory, or in a memory cgroup of so many mebibytes.
if [ "$1" = swap ]; then
    echo 1G > /sys/block/zram0/disksize
    mkswap /dev/zram0 > /tmp/swap && swapon /dev/zram0 || exit 2
else
    mkdir -p /sys/fs/cgroup
    mount -t cgroup2 none /sys/fs/cgroup
    echo +memory > /sys/fs/cgroup/cgroup.subtree_control
    mkdir /sys/fs/cgroup/limited
    echo "$1M" > /sys/fs/cgroup/limited/memory.max || exit 2
    echo $$ > /sys/fs/cgroup/limited/cgroup.procs
fi
shift
"$@"
