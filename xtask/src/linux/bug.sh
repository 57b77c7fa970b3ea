#!/bin/busybox sh
# usage: bug NAME SECONDS LOAD...
# Wakes a bug, or `none`, and runs loads.
mkswap /dev/vdc > /tmp/swap && swapon /dev/vdc
[ "$1" = none ] || echo 1 > "/sys/module/kernel/parameters/tlb_bug_$1" || exit 2
seconds=$2
shift 2
for load in "$@"; do bug_loads "$load" "$seconds" || exit 2; done
