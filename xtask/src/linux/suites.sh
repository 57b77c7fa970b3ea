#!/bin/busybox sh
# usage: suites SECONDS
# Runs Linux's selftests of memory management, and stress-ng's stressors of it for so many seconds each. A line of result
# has the exit code and how many parts passed, failed and were skipped.
seconds=$1
mkdir -p /lib64 /etc /dev/shm /sys/fs/cgroup
ln -s /mnt/lib/ld-linux-x86-64.so.2 /lib64/
export LD_LIBRARY_PATH=/mnt/lib
echo root:x:0:0:root:/:/bin/sh > /etc/passwd
mount -t tmpfs shm /dev/shm
mount -t cgroup2 none /sys/fs/cgroup
mkswap /dev/vdc > /tmp/swap && swapon /dev/vdc
result() {
    count() { grep -c "$1" /tmp/out; }
    skipped=$(count '^ok.*# SKIP')
    echo "result $1 $2 $(($(count '^ok') - skipped)) $(count '^not ok') $skipped"
}
selftest() {
    cd /mnt/mm || exit 1
    timeout 300 "./$@" > /tmp/out 2>&1 < /dev/null
    result "$(echo "$*" | tr ' ' ,)" $?
    grep '^not ok' /tmp/out
}
stress() {
    cd /tmp || exit 1
    timeout 300 /mnt/bin/stress-ng --timeout "$seconds" --temp-path /tmp "$@" > /tmp/out 2>&1 < /dev/null
    result "$beside$(echo "$*" | tr ' ' ,)" $?
    grep fail: /tmp/out
}
selftest map_fixed_noreplace
selftest map_populate
selftest droppable
selftest mlock-random-test
selftest mlock2-tests
selftest mrelease_test
selftest mremap_test
selftest mremap_dontunmap
selftest guard-regions
selftest madv_populate
selftest process_madv
selftest merge
selftest memfd_secret
selftest mkdirty
selftest mdwe_test
selftest rmap
selftest mseal_test
selftest prctl_thp_disable
selftest protection_keys_64
selftest soft-dirty
selftest pagemap_ioctl
selftest pfnmap
selftest cow
selftest migration
selftest compaction_test
selftest ksm_functional_tests
selftest ksm_tests -M -p 10
selftest ksm_tests -U
selftest ksm_tests -Z -p 10 -z 0
selftest khugepaged
selftest split_huge_page_test
selftest folio_split_race_test
selftest transhuge-stress -d 10
selftest gup_longterm
selftest uffd-unit-tests
selftest uffd-stress anon 20 4
selftest uffd-stress shmem 20 4
selftest uffd-wp-mremap
stressors() {
    stress --vm 4 --vm-bytes 192M --verify
    stress --mmap 4 --mmap-bytes 48M --verify
    stress --mmap 4 --mmap-bytes 48M --mmap-file --verify
    stress --mremap 4 --mremap-bytes 32M --verify
    stress --madvise 4
    stress --fork 4
    stress --numa 4
    stress --tlb-shootdown 4
    stress --vm 4 --vm-bytes 128M --mmap 2 --mmap-file --mmap-bytes 48M --fork 2 --tlb-shootdown 2
}
beside=stress-ng
stressors
# Again while two threads read a disk four times as large as memory: on the lazy kernel pages wait meanwhile.
beside=reading,stress-ng
{ while guest_loads read 2 262144 /dev/vda; do :; done; } &
reader=$!
stressors
kill "$reader"
killall guest_loads
dmesg | grep -E 'BUG:|WARNING:|lazy_unmap:' | sed 's/^/kernel: /'
true
