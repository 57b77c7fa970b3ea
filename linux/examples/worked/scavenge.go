// A goroutine serves requests, another one keeps a cache fresh: `scavenge SECONDS [free]`. Each has a CPU of its own.
// With `free` the program gives memory back by debug.FreeOSMemory each time.
package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const (
	entries = 4000
	entry   = 8192
	lookups = 5000
)

var (
	table [1 << 17]uint64
	cache [entries][]byte
)

// Every pause, new entries replace most of the cache. The others stay, so the free memory is in many pieces.
func refresh(free bool, done chan bool) {
	keepTo(1)
	for round := 0; ; round++ {
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
		for i := range cache {
			if i%8 != round%8 {
				cache[i] = nil
			}
		}
		if free {
			debug.FreeOSMemory()
		}
		for i := range cache {
			if cache[i] == nil {
				cache[i] = bytes.Repeat([]byte{1}, entry)
			}
		}
	}
}

func keepTo(cpu uint) {
	runtime.LockOSThread()
	mask := uint64(1) << cpu
	syscall.RawSyscall(syscall.SYS_SCHED_SETAFFINITY, 0, 8, uintptr(unsafe.Pointer(&mask)))
}

func draw(state *uint64) uint64 {
	*state ^= *state << 13
	*state ^= *state >> 7
	*state ^= *state << 17
	return *state
}

func main() {
	seconds, err := strconv.ParseFloat(append(os.Args, "")[1], 64)
	if err != nil {
		fmt.Fprintln(os.Stderr, "usage: scavenge SECONDS [free]")
		os.Exit(2)
	}
	done := make(chan bool)
	go refresh(len(os.Args) > 2, done)
	keepTo(0)
	all := make([]time.Duration, 0, 1<<22)
	state, begin := uint64(88172645463325252), time.Now()
	for time.Since(begin).Seconds() < seconds && len(all) < cap(all) {
		since := time.Now()
		for range lookups {
			table[draw(&state)%uint64(len(table))]++
		}
		all = append(all, time.Since(since))
	}
	close(done)
	slices.Sort(all)
	fmt.Printf("%.0f requests/s, p50 p99 p99.9:", float64(len(all))/seconds)
	for _, part := range []float64{0.5, 0.99, 0.999} {
		fmt.Printf(" %.1f", float64(all[int(float64(len(all)-1)*part)].Nanoseconds())/1e3)
	}
	fmt.Println(" us")
}
