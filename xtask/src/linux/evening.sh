#!/bin/sh
# usage: evening [MIB [TIMES]]
# Runs loads on this kernel, in a memory cgroup of so many mebibytes (4096), so many times each (5), and appends what they cost to
# evening.txt. With vm.lazy_unmap there, it runs all without it and with it. It needs root, and some minutes.
set -eu
cd "$(dirname "$0")"
mib=${1:-4096}
times=${2:-5}
result=evening.txt
group=/sys/fs/cgroup/ceasefire-evening
switch=/proc/sys/vm/lazy_unmap

fail() {
    echo "evening: $1" >&2
    exit 1
}
[ "$(id -u)" = 0 ] || fail "it needs root, for a cgroup and for swap"
[ -f /sys/fs/cgroup/cgroup.controllers ] || fail "cgroup 2 is not mounted at /sys/fs/cgroup"
[ "$mib" -ge 64 ] && [ "$times" -ge 1 ] || fail "MIB is 64 or more, and TIMES 1 or more"
if [ "$(awk '/MemAvailable/ { print int($2 / 1024) }' /proc/meminfo)" -le "$mib" ]; then
    fail "$mib MiB are not free: give fewer"
fi
# A file of twice the cgroup is written.
if [ "$(df -Pm . | awk 'NR == 2 { print $4 }')" -le $((mib * 2 + 64)) ]; then
    fail "$((mib * 2 + 64)) MiB are not free in $PWD: run it elsewhere, or give fewer"
fi

# What this changes is undone, but the controller of memory stays on.
before=$(cat $switch 2> /dev/null || true)
device=
undo() {
    [ -z "$before" ] || echo "$before" > $switch
    if [ -n "$device" ]; then
        swapoff "$device" 2> /dev/null || true
        echo 1 > "/sys/block/${device#/dev/}/reset" || true
        echo "${device#/dev/zram}" > /sys/class/zram-control/hot_remove || true
    fi
    rmdir $group 2> /dev/null || true
    rm -rf evening.holes evening.dirty evening.small evening.before
}
trap undo EXIT
trap 'exit 1' INT TERM
echo +memory > /sys/fs/cgroup/cgroup.subtree_control
mkdir -p $group
echo "${mib}M" > $group/memory.max || fail "the cgroup takes no limit"

counts() {
    awk '/TLB:/ { for (i = 2; i <= NF; i++) if ($i ~ /^[0-9]+$/) sum += $i } END { print "tlb", sum + 0 }' /proc/interrupts
    awk '$1 ~ /^(pgscan|pgsteal)_(kswapd|direct)$|^workingset_refault_(file|anon)$|^lazy_unmap_/' /proc/vmstat
}

milliseconds() {
    awk '{ print int($1 * 1000) }' /proc/uptime
}

# load NAME COUNT WORDS...: so many pages, calls or children, and the words after guest_loads.
load() {
    name=$1
    count=$2
    shift 2
    time=0
    while [ $time -lt "$times" ]; do
        time=$((time + 1))
        # Each begins with cold caches.
        sync
        echo 3 > /proc/sys/vm/drop_caches
        counts > evening.before
        start=$(milliseconds)
        status=0
        # shellcheck disable=SC2016 # It is for the shell in the cgroup.
        printed=$(sh -c 'echo $$ > "$0/cgroup.procs" && exec ./guest_loads "$@"' $group "$@" 2>&1) || status=$?
        end=$(milliseconds)
        {
            echo "load $name $count $status $((end - start))"
            counts | awk 'NR == FNR { was[$1] = $2; next } { print "count", $1, $2 - was[$1] }' evening.before -
            echo "$printed" | grep '^count ' || true
        } >> $result
        [ $status = 0 ] || echo "evening: $name ended with $status: $printed" >&2
    done
    echo "$setting $name"
}

loads() {
    cpus=$(nproc)
    # Twice the memory of the cgroup.
    each=$((mib * 512 / cpus))
    load read $((each * cpus)) read "$cpus" $each evening.holes
    load processes $((each * cpus)) processes "$cpus" $each evening.holes
    load dirty $((each * cpus)) store "$cpus" $each evening.dirty
    if [ -n "$device" ]; then
        load anonymous $((each * 3 / 4 * cpus)) fill "$cpus" $((each * 3 / 4)) 1
    fi
    load touch $((each / 4 * cpus)) fill "$cpus" $((each / 4)) 1
    load fork 500 fork "$cpus" 64 500
    load madvise $((20000 * cpus)) madvise "$cpus" 20000
    load munmap $((20000 * cpus)) munmap "$cpus" 20000
    load munmap_large $((each / 4 * cpus)) munmap "$cpus" 1 $((each / 4))
    load protect $((2000 * cpus)) wait "$cpus" 2000
    load exec $((200 * cpus)) exec "$cpus" 200
    load unlink $((5000 * cpus)) unlink "$cpus" 5000 evening.small
    load switch $((100000 * cpus)) switch "$cpus" 100000
    load faults 200000 faults "$cpus" $each evening.holes 200000
}

truncate -s "$((mib * 2))M" evening.holes evening.dirty
mkdir -p evening.small
if { modprobe zram 2> /dev/null || true; } && [ -f /sys/class/zram-control/hot_add ]; then
    device=/dev/zram$(cat /sys/class/zram-control/hot_add)
    echo "$((mib * 2))M" > "/sys/block/${device#/dev/}/disksize"
    # Before any other swap.
    mkswap "$device" > /dev/null && swapon -p 32767 "$device" || fail "there can be no swap on $device"
else
    echo "evening: there is no zram, so anonymous is left out" >&2
fi

settings=none
[ -z "$before" ] || settings="0 1"
for setting in $settings; do
    [ "$setting" = none ] || echo "$setting" > $switch
    {
        echo "kernel $(uname -rv)"
        echo "lazy_unmap $setting"
        echo "cpus $(nproc) $(awk -F': ' '/model name/ { print $2; exit }' /proc/cpuinfo)"
        echo "cmdline $(cat /proc/cmdline)"
    } >> $result
    loads
done
echo "evening: send $PWD/$result, when all kernels have run"
