#!/bin/busybox sh
# usage: guards SECONDS [GUARD]
# Runs the selftest with all guards, then late, and then without each guard until it or the kernel notices. With a GUARD it
# runs that part alone, and `all` is the first: then others look, so notice does not end it.
seconds=$1
only=$2
debug=/sys/kernel/debug/lazy_unmap
[ -d "$debug" ] || { echo "the kernel has no $debug"; exit 2; }
mkswap /dev/vdc > /tmp/swap && swapon /dev/vdc
# Tells findings from reports: a report does not end the test.
round() {
    before=$(cat $debug/reports)
    lazy_unmap "$1" /mnt $2 > /tmp/round
    found=$?
    reports=$(($(cat $debug/reports) - before))
}
wants() {
    [ "${only:-$1}" = "$1" ]
}
whole() {
    wants all || return
    echo "$1" > $debug/late
    round "$seconds"
    cat /tmp/round
    echo "whole $1 $found $reports"
}
without() {
    wants "$1" || return
    # The sanitizer blames nobody while the call that unmaps goes on, and late calls are long.
    [ -z "$only" ] || set -- "$1" "$2" 0
    echo "$3" > $debug/late
    echo N > "$debug/guard_$1"
    ran=0
    found=0
    reports=0
    while [ -n "$only" -o "$found$reports" = 00 ] && [ $ran -lt "$seconds" ]; do
        round 10 "$2"
        ran=$((ran + 10))
    done
    echo Y > "$debug/guard_$1"
    echo "without $1 $2 $3 $found $reports $ran"
    grep '^# page' /tmp/round
}
whole 0
whole 20
without wait write 0
without dirty store 50
without pending mapping 20
without install copy 20
without settle hole 20
echo 0 > $debug/late
