//! Wrong inputs: each is answered with one line that has the bound or the nearest name in it, at once, and no file is
//! touched.

use std::ffi::OsStr;
use std::fmt::Debug;
use std::fs;

use crate::common::{ceasefire, command, refusal, refused, Folder};

const MACHINE: &str = include_str!("../../sim/machine/machines/1-socket.toml");

/// A short run that broadcasts nothing and owes nothing.
const RUN: &[&str] = &["compare", "tlb-flush2", "--machine", "milan-36", "--threads", "2", "--quiet"];

/// The mechanism and the size of that run, unless a test chooses others.
const SMALL: &[&str] =
    &["--set", "lru_drain=batched", "--mechanism", "batched", "--scale", "0.0002", "--repeats", "1"];

/// Runs the command in a folder, and checks that it refuses with one line that has all the `parts`, and leaves the
/// folder as it was.
fn refuses<T: AsRef<OsStr> + Debug>(folder: &Folder, arguments: &[T], parts: &[&str]) {
    let before = folder.contents();
    let message = refusal(command().current_dir(folder.path()).args(arguments));
    for part in parts {
        assert!(message.contains(part), "{part} in the answer to {arguments:?}: {message}");
    }
    assert!(folder.contents() == before, "{arguments:?} changed {:?}", folder.contents().keys());
}

#[test]
fn wrong_names_are_answered_with_the_nearest() {
    let folder = Folder::new();
    for (arguments, parts) in [
        (&["compare", "mmap-raed"][..], &["did you mean 'mmap-read'?"][..]),
        (&["mmap-raed"], &["did you mean 'mmap-read'?"]),
        (&["compare", "mmap-read=3"], &["did you mean 'mmap-read'?"]),
        (&["compare", "mmap\nread"], &["'mmap\\nread'", "did you mean 'mmap-read'?"]),
        (&["compare", ""], &["no experiment is called ''", "Known experiments: mmap-read, migrate,"]),
        (&["compare", "--mechanism", "per-page,bathced"], &["did you mean 'batched'?"]),
        (&["compare", "--mechanism", ""], &["Known mechanisms: per-page, batched, lazy, broadcast, all"]),
        (&["compare", "--machine", "1-sockets"], &["did you mean '1-socket'?"]),
        (&["compare", "--machine", "hots"], &["did you mean 'host'?"]),
        (
            &["compare", "--machine", "zzz"],
            &["Known machines: 4-node-48-cpu, 1-socket, 2-socket-intel, 128-core-arm64, xeon-6430-cxl, small-vm, \
               milan-36, milan-72, milan-8192, host"],
        ),
        (&["compare", "--set", "costs.fault"], &["KEY=NUMBER UNIT", "'--set <KEY=VALUE>'"]),
        (&["compare", "migrate", "--set", "costs.fautl=3 ns"], &["did you mean 'costs.fault'?"]),
        (&["compare", "migrate", "--set", "costs.fault=3 m"], &["\"m\": must be one of ps, ns, us, ms"]),
        (&["compare", "migrate", "--set", "costs.fault=-3"], &["-3 ns: must be 0 to 1000 ms"]),
        (&["compare", "--machine", "host", "--set", "costs.fault=3 ns"], &["'host' has no file"]),
        (&["compare", "--set", "setle=free"], &["KEY=NUMBER UNIT", "settle, lru_drain, without, speculate"]),
        (&["compare", "--set", "without=smt,smtt"], &["did you mean 'smt'?"]),
        (&["compare", "--set", "without="], &["contention, smt, idle, far-walks, bandwidth, ticks"]),
        (&["compare", "--set", "settle=fre"], &["no settlement is called 'fre'; did you mean 'free'?"]),
        (&["compare", "--set", "lru_drain=egaer"], &["did you mean 'eager'? Known LRU drains: eager, batched"]),
        (&["compare", "--set", "linux=6.18"], &["the release of Linux is chosen with --kernel"]),
        (
            &["compare", "migrate", "--set", "costs.fault=1 us", "--set", "costs.fault=2 us"],
            &["--set costs.fault: must be given only once"],
        ),
        (&["compare", "--kernel", "6.17"], &["no kernel is called '6.17'", "6.13, 6.18, 7.2"]),
        (&["compare", "--check", "nine"], &["[possible values: none, first, all]", "'none'"]),
        (&["compare", "--sale", "1"], &["'--scale'"]),
        (&["compare", "--machne", "host"], &["'--machine'"]),
        (&["--chekc", "all"], &["'--check'"]),
        (&["record", "--duration", "0s"], &["must be longer than 0"]),
        (&["record", "--duration", "5x"], &["'x' is no unit of time: use ms, s, min or h"]),
        (&["record", "--output", "missing/file"], &["missing/file", "there is no folder missing"]),
        (&["record", "--output", "a", "--json", "./a"], &["--output and --json name the same file"]),
        (&["import"], &["<FILE>"]),
        (&["import", "missing"], &["missing: No such file"]),
        (&["import", "."], &["./data: perf record's directory lacks this file"]),
        (&["import", "a", "--output", "./a"], &["the file and --output name the same file"]),
        (&["import", "a", "--output", "b", "--json", "b"], &["--output and --json name the same file"]),
        (&["import", "a", "--kallsyms", "a"], &["the file and --kallsyms name the same file"]),
        (&["anonymize"], &["<FILE>"]),
        (&["anonymize", "missing"], &["missing: No such file"]),
        (&["anonymize", "a", "--output", "./a"], &["the recording and --output name the same file"]),
        (&["replay", "missing"], &["missing: No such file"]),
        (&["replay", "missing", "--mechanism", "lasy"], &["did you mean 'lazy'?"]),
        (&["replay", "missing", "--batch", "0"], &["must be a whole number of calls, at least 1"]),
        (&["replay", "missing", "--decay", "5x"], &["'x' is no unit of time: use ms, s, min or h"]),
        (&["replay", "missing", "--decay", "0s"], &["must be longer than 0"]),
        (&["replay", "missing", "--decay", "-3s"], &["'-3s' for '--decay <TIME>': it must be longer than 0"]),
        (&["replay", "missing", "--by", "thread"], &["[possible values: process, cause, sender, victim]"]),
        (&["replay", "a", "--html", "a"], &["the recording and --html name the same file"]),
        (&["replay", "a", "--html", "-"], &["--html writes to a file, not to standard output"]),
        (&["replay", "a", "--html", "b", "--json", "./b"], &["--json and --html name the same file"]),
        (&["record", "--output", "a", "--html", "./a"], &["--output and --html name the same file"]),
        (&["record", "--light", "--html", "a"], &["--light", "--html"]),
        (&["record", "--output", "/dev/null", "--html", "a"], &["/dev/null: --html needs a recording in a file"]),
        (&["record", "--output", "/dev/null", "--trace", "a.pftrace"], &["/dev/null: --trace needs a recording in a file"]),
        (&["import", ".", "--output", "/dev/null", "--trace", "a.pftrace"], &["/dev/null: --trace needs a recording"]),
        (&["record", "--trace", "a.txt"], &["a.txt", "must end in .pftrace or .perfetto-trace"]),
        (&["record", "--output", "a.pftrace", "--trace", "./a.pftrace"], &["--output and --trace name the same file"]),
        (&["record", "--trace", "missing/a.pftrace"], &["missing/a.pftrace", "there is no folder missing"]),
        (&["import", "missing", "--trace", "a.pftrace"], &["missing: No such file"]),
        (&["import", "/dev/null", "--trace", "a"], &["a: --trace", "must end in .pftrace or .perfetto-trace"]),
        (&["import", "a.pftrace", "--trace", "./a.pftrace"], &["the file and --trace name the same file"]),
        (&["replay", "a", "--trace", "a.json"], &["a.json: --trace", "must end in .pftrace or .perfetto-trace"]),
        (&["replay", "a", "--trace", "-"], &["--trace writes to a file, not to standard output"]),
        (&["replay", "a.pftrace", "--trace", "a.pftrace"], &["the recording and --trace name the same file"]),
        (
            &["replay", "a", "--html", "b.pftrace", "--trace", "b.pftrace"],
            &["--html and --trace name the same file"],
        ),
        (&["replay", "missing", "--trace", "a.pftrace"], &["missing: No such file"]),
        (&["replay", "missing", "--trace", "none/a.pftrace"], &["none/a.pftrace", "there is no folder none"]),
        (&["replay", "a", "--json", "a"], &["the recording and --json name the same file"]),
        (&["diff", "a", "b", "--html", "b"], &["the recording and --html name the same file"]),
        (&["diff", "missing"], &["<FILE>"]),
        (&["diff", "missing", "other"], &["missing: No such file"]),
        (&["top"], &["standard output is no terminal", "use --once or --json -"]),
        (&["top", "--interval", "3x"], &["'x' is no unit of time: use ms, s, min or h"]),
        (&["top", "--interval", "0s"], &["must be longer than 0"]),
        (&["top", "--count", "0"], &["must be a whole number, 1 to 65535"]),
        (&["top", "--once", "--count", "2"], &["'--once' cannot be used with '--count <N>'"]),
        (&["top", "--json", "missing/file"], &["missing/file", "there is no folder missing"]),
        (&["list", "machine"], &["'machines'", "[possible values: experiments, machines, mechanisms, kernels]"]),
        (&["list", "everything"], &["[possible values: experiments, machines, mechanisms, kernels]"]),
        (&["calibrate", "--only", "latency,fualt"], &["did you mean 'fault'?"]),
        (&["calibrate", "--only", ""], &["Known parts: latency, switch, fault, flush, shootdown, tlb"]),
        (&["completions", "bsh"], &["[possible values: bash, elvish, fish, powershell, zsh]", "'bash'"]),
    ] {
        refuses(&folder, arguments, parts);
    }
}

#[test]
fn a_word_that_is_no_command_is_answered_with_the_commands() {
    let folder = Folder::new();
    for (arguments, parts) in [
        (&["lits"][..], &["no command or experiment is called 'lits'; did you mean 'list'? Commands: top, record, "][..]),
        (&["recrod"], &["did you mean 'record'?"]),
        (
            &["stat"],
            &["no command or experiment is called 'stat'. Commands: top, record, replay, diff, import, anonymize, \
               calibrate, compare, list, sweep, fit, check, sanitize, completions, man; `ceasefire list experiments` has the rest\n"],
        ),
        (&["compare", "stat"], &["no experiment is called 'stat'. Known experiments: mmap-read, migrate,"]),
        (&["competions", "bash"], &["did you mean 'completions'?"]),
        (&["--all", "list"], &["the command 'list' must come first"]),
        (&["--quiet", "compare", "mmap-read"], &["the command 'compare' must come first"]),
        (&["calibrat"], &["did you mean 'calibrate'?"]),
        (&["--all", "calibrate"], &["the command 'calibrate' must come first"]),
    ] {
        refuses(&folder, arguments, parts);
    }
}

#[test]
fn numbers_out_of_range_are_answered_with_the_range() {
    let folder = Folder::new();
    for (option, values, bound) in [
        ("--scale", &["1/x", "", "a lot", "1/2/3", "1/0", "inf"][..], "such as 0.0625 or 1/16"),
        ("--seed", &["-1", "x", "1.5", "99999999999999999999999"], "0 to 18446744073709551615"),
        ("--jobs", &["0", "-1", "1.5", "65536"], "1 to 65535"),
        ("--repeats", &["0", "-1", "x", "", "65536"], "1 to 65535"),
        ("--threads", &["0", "-1", "1.5", "1,,2", "65536", ""], "1 to 65535"),
        ("--cpus", &["-1", "x", "0.5", "99999999999"], "1 to 8192 CPUs"),
    ] {
        for value in values {
            refuses(&folder, &["compare", "tlb-flush2", option, value], &[option, bound]);
        }
    }
    for rate in ["2", "-0.1", "nan", "x", "1/2"] {
        let set = format!("speculate={rate}");
        refuses(&folder, &["compare", "--set", &set], &["--set speculate=", "must be a number, 0 to 1"]);
    }
    for scale in ["0", "-1", "nan", "0/0", "1e-300", "-0"] {
        refuses(&folder, &[RUN, &["--scale", scale]].concat(), &["must be at least 0.0001"]);
    }
    for scale in ["1e300", "2/1"] {
        refuses(&folder, &[RUN, &["--scale", scale]].concat(), &["above 1"]);
    }
    for cpus in ["0", "8193"] {
        refuses(&folder, &["compare", "--cpus", cpus], &["must be 1 to 8192 CPUs"]);
    }
    let last = ["--seed", "18446744073709551615", "--repeats", "2"];
    let bound = "must be at most 18446744073709551614";
    refuses(
        &folder,
        &[&["compare", "mmap-read"], &last[..]].concat(),
        &["--seed 18446744073709551615", bound],
    );
    refuses(&folder, &["compare", "migrate", "--threads", "3"], &["the number of threads cannot be chosen"]);
    refuses(&folder, &["compare", "migrate", "--set", "lru_drain=eager"], &["new pages cannot be chosen"]);
    refuses(
        &folder,
        &["compare", "tlb-flush2", "--machine", "milan-36", "--threads", "37"],
        &["must be 1 to 36"],
    );
}

#[test]
fn sizes_that_do_not_fit_are_answered_with_the_bound() {
    let folder = Folder::new();
    for (arguments, parts) in [
        (&["migrate", "--machine", "1-socket"][..], &["migrate on 1-socket", "must be at least 2"][..]),
        (&["mmap-read", "migrate", "--machine", "1-socket"], &["migrate on 1-socket", "must be at least 2"]),
        (&["migrate", "--machine", "2-socket-intel", "--cpus", "1"], &["too few nodes with CPUs: 1"]),
        (&["migrate", "--machine", "2-socket-intel", "--scale", "0.0001"], &["at least 0.0005"]),
        (&["mmap-read", "--machine", "1-socket", "--cpus", "8192", "--scale", "1"], &["at most 4096"]),
    ] {
        refuses(&folder, &[&["compare"], arguments].concat(), parts);
    }
    // The least size and the most CPUs that an answer gives can run.
    let message = refused(&["compare", "mmap-read", "--machine", "1-socket", "--scale", "0.0001"]);
    let least = message.trim_end().rsplit("at least ").next().expect("the least scale");
    let one =
        ["mmap-read", "--machine", "1-socket", "--mechanism", "batched", "--repeats", "1", "--check=none"];
    crate::common::printed(&[&one[..], &["--scale", least]].concat());
    let message = refused(&["compare", "mmap-read", "--machine", "1-socket", "--cpus", "8192"]);
    let most = message.trim_end().rsplit(' ').next().expect("the most CPUs");
    assert!(most.parse::<u16>().is_ok_and(|most| most > 8), "{message}");
}

#[test]
fn arguments_that_do_not_go_together_are_refused() {
    let folder = Folder::new();
    let run = [RUN, SMALL].concat();
    for (arguments, parts) in [
        (&["compare", "--seed"][..], &["a value is required for '--seed <N>'"][..]),
        (&["compare", "--seed", "1", "--seed", "2"], &["'--seed <N>' cannot be used multiple times"]),
        (&["compare", "--table", "a", "--table", "b"], &["cannot be used multiple times"]),
        (&["compare", "--quiet=1"], &["unexpected value '1' for '--quiet'"]),
        (&["compare", "-x"], &["unexpected argument '-x'"]),
        (&["list", "experiments", "machines"], &["unexpected argument 'machines'"]),
        (&["list", "--parameters"], &["only with 'list machines'"]),
        (&["list", "mechanisms", "--parameters"], &["only with 'list machines'"]),
        (&["man", "list"], &["unexpected argument 'list'"]),
        (&["completions"], &["<SHELL>"]),
        (&[&run[..], &["--set", "settle=free"]].concat(), &["--set settle applies only to lazy and all"]),
        (&[&run[..], &["--set", "settle=demand"]].concat(), &["--set settle applies only to lazy and all"]),
        (&["compare", "--trace", "t"], &["--trace needs exactly one run, but", "choose one experiment"]),
        (&["compare", "mmap-read", "--trace", "t", "--repeats", "2"], &["exactly one run"]),
    ] {
        refuses(&folder, arguments, parts);
    }
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt as _;
        let name = OsStr::from_bytes(b"mmap-\xff");
        refuses(&folder, &[OsStr::new("compare"), name], &["invalid UTF-8"]);
        refuses(&folder, &[OsStr::new("compare"), OsStr::new("--machine"), name], &["invalid UTF-8"]);
    }
}

#[test]
fn wrong_machine_files_are_answered_with_the_place_and_the_bound() {
    let folder = Folder::new();
    for (from, to, parts) in [
        ("[costs.lock]\nvalue = ", "[costs.lock]\nvalue = -", &["costs.lock.value: -20 ns", "0 to 1000 ms"][..]),
        ("[costs.lock]\nvalue = 20", "[costs.lock]\nvalue = 1e30", &["costs.lock.value", "0 to 1000 ms"]),
        ("[costs.lock]\nvalue = 20", "[costs.lock]\nvalue = nan", &["nan: must be a finite number"]),
        ("[costs.lock]\nvalue = 20", "[costs.lock]\nvalue = \"20\"", &["expected a number, found a text"]),
        (
            "[costs.lock]\nvalue = 20\nunit = \"ns\"",
            "[costs.lock]\nvalue = 20\nunit = \"lines\"",
            &["one of ps, ns, us, ms"],
        ),
        ("[costs.lock]", "[costs.unused]", &["costs.lock: missing"]),
        ("[costs.lock]", "[costs.access]", &["duplicate key"]),
        ("cpus = 8\n", "cpus = 0\n", &["0 CPUs: must be 1 to 8192 CPUs"]),
        ("cpus = 8\n", "cpus = 8193\n", &["topology.nodes[0].cpus: 8193: must be 0 to 8192"]),
        ("cpus = 8\n", "cpus = 4\n", &["matrix of 8 CPUs: must be of 4"]),
        ("memory]\nvalue = 8", "memory]\nvalue = 0", &["0 B: must be at least 4096 B"]),
        ("memory]\nvalue = 8", "memory]\nvalue = 8e8", &["0 to 1024 TiB"]),
        ("unit = \"GiB\"", "unit = \"GB\"", &["one of B, KiB, MiB, GiB, TiB"]),
        ("[tlb.l1]", "[tlb.l1", &["machine.toml:23: ", "expected `]`"]),
        ("name = \"1-socket\"", "name = \"\"", &["name: \"\": must be a text that is not blank"]),
        ("name = \"1-socket\"", "name = 1", &["name: 1: must be a text: \"1\""]),
        ("name = \"1-socket\"", "", &["name: missing"]),
        ("name = ", "linux = \"6.10\"\nname = ", &["linux: \"6.10\": must be one of \"4.2\", \"6.3\", \"6.9\", "]),
        ("entries = 64\nways = 4", "entries = 64\nways = 5", &["must be a power of two of sets"]),
        ("entries = 64\nways = 4", "entries = 0\nways = 4", &["must be 1 to 65536 entries"]),
        ("matrix = \"", "matrix = \"un", &["latency.matrix", "a file, relative", "or one of amd-epyc"]),
        ("matrix = ", "uniform = 3\nmatrix = ", &["must be one of the two"]),
        ("matrix = ", "cells = ''\nmatrix = ", &["`cells` beside `matrix`", "must be one of the two"]),
        ("tier = 0", "tier = 1", &["tier 1: must be the tier of a node, one of 0"]),
        ("[smt.slowdown]\nvalue = 160", "[smt.slowdown]\nvalue = 20", &["20: must be 100 to 1000"]),
        ("[smt.apart]\nvalue = 1\n", "[smt.apart]\nvalue = 9\n", &["smt.apart.value: 9: must be 1 to 8"]),
        (
            "[idle.residency]\nvalue = 2\n",
            "[idle.residency]\nvalue = 700\n",
            &["must be a deeper state than the one before"],
        ),
        (
            "\"mmap-read user before\"",
            "\"mmap-read usr before\"",
            &["topology.nodes[0].memory.seen[0]: \"mmap-read usr before\": must be \"mmap-read\" and then one of "],
        ),
        (
            "\"mmap-read user before\"",
            "\"mmap-raed user before\"",
            &["must be an experiment with published figures first, one of mmap-read, "],
        ),
        (
            "fitted = \"mmap-read 1-socket system before\"",
            "fitted = \"mmap-read system before\"",
            &[
                "costs.reclaim_page.fitted: \"mmap-read system before\": must be one figure, not 2",
                "narrowed by 4-node-48-cpu, 1-socket",
            ],
        ),
    ] {
        assert!(MACHINE.contains(from), "{from}");
        folder.write("machine.toml", &MACHINE.replacen(from, to, 1));
        refuses(
            &folder,
            &["compare", "mmap-read", "--machine", "machine.toml"],
            &[parts, &["machine.toml:"]].concat(),
        );
    }
    folder.write("machine.toml", "");
    refuses(&folder, &["--machine", "machine.toml"], &["machine.toml: topology: missing"]);
    fs::write(folder.file("machine.toml"), b"\xff\xfe").expect("writable");
    refuses(&folder, &["--machine", "machine.toml"], &["machine.toml: cannot read: ", "UTF-8"]);
    refuses(&folder, &["--machine", "none.toml"], &["none.toml: cannot read: "]);
    refuses(&folder, &["--machine", "none/machine"], &["none/machine: cannot read: "]);
    refuses(&folder, &["--machine", "."], &[".: cannot read: "]);
}

#[test]
fn a_machine_that_is_too_small_is_answered_with_the_bound() {
    let folder = Folder::new();
    // The range does not fit on a node of 2 GiB, at any scale.
    let text = include_str!("../../sim/machine/machines/2-socket-intel.toml")
        .replace("value = 64\nunit = \"GiB\"", "value = 2\nunit = \"GiB\"");
    folder.write("narrow.toml", &text);
    let parts = ["node 0 has 2048.0 MiB", "at least 5120 MiB"];
    refuses(&folder, &["migrate", "--machine", "narrow.toml"], &parts);
    let text = include_str!("../../sim/machine/machines/milan-36.toml");
    folder.write("no-asids.toml", &text.replace("asid_space = 4096", "asids = false"));
    let run = ["tlb-flush2", "--machine", "no-asids.toml", "--mechanism", "broadcast", "--scale", "0.0002"];
    refuses(&folder, &run, &["'broadcast' needs TLB entries with ASIDs"]);
}

#[test]
fn wrong_latency_matrices_are_answered_with_the_cell_and_the_bound() {
    let folder = Folder::new();
    folder.write("machine.toml", &MACHINE.replace("intel-core-i7-6700k.csv", "matrix.csv"));
    let many = "\n".repeat(1025);
    for (text, parts) in [
        (&b""[..], &["0 rows: must be 1 to 1024 rows"][..]),
        (many.as_bytes(), &["1025 rows: must be 1 to 1024 rows"]),
        (b",\n", &["matrix.csv:1: 2 cells: must be 1, as many as rows"]),
        (b",,\n10,,\n10,11\n", &["matrix.csv:3: 2 cells: must be 3, as many as rows"]),
        (b",\n1,\n", &["matrix of 2 CPUs: must be of 8"]),
        (b",\n,\n", &["matrix.csv:2:1: missing"]),
        (b",\nx,\n", &["matrix.csv:2:1: x: must be a latency of 0 to 1000000 ns"]),
        (b",\n-1,\n", &["matrix.csv:2:1: -1: must be a latency of 0 to 1000000 ns"]),
        (b",\n1e7,\n", &["matrix.csv:2:1: 1e7: must be a latency of 0 to 1000000 ns"]),
        (b",1\n1,\n", &["matrix.csv:1:2: 1: must be left empty"]),
        (b"a;b\n1;2\n", &["matrix.csv:1: 1 cells: must be 2, as many as rows"]),
        (b"\0", &["matrix.csv:1:1: ", "must be left empty"]),
        (b"\xff", &["matrix.csv: cannot read: ", "UTF-8"]),
    ] {
        fs::write(folder.file("matrix.csv"), text).expect("writable");
        refuses(&folder, &["mmap-read", "--machine", "machine.toml"], parts);
    }
    folder.write("machine.toml", &MACHINE.replace("intel-core-i7-6700k.csv", "."));
    refuses(&folder, &["mmap-read", "--machine", "machine.toml"], &["cannot read: "]);
}

#[cfg(target_os = "linux")]
#[test]
fn files_of_other_programs_are_imported_or_refused() {
    let folder = Folder::new();
    for (name, kind) in
        [("perf.data", "perf.data"), ("trace-6.dat", "trace.dat"), ("trace-7.dat", "trace.dat")]
    {
        let path = format!("{}/../linux/recordings/import/{name}", env!("CARGO_MANIFEST_DIR"));
        let remedy = format!("it is a {kind} file, not a recording: use 'ceasefire import FILE' first");
        refuses(&folder, &["replay", &path], &[&remedy]);
        refuses(&folder, &["diff", &path, &path], &[&remedy]);
        let bytes = fs::read(&path).expect("readable");
        fs::write(folder.file("cut"), &bytes[..1000]).expect("writable");
        refuses(&folder, &["import", "cut"], &["cut: the file is cut off: it has 1000 bytes"]);
        // perf does not say where functions are.
        fs::write(folder.file("hidden"), "").expect("writable");
        if kind == "perf.data" {
            refuses(&folder, &["import", &path, "--kallsyms", "hidden"], &["flush_tlb_func", "--kallsyms"]);
        }
        let kallsyms = format!("{}/../linux/recordings/import/kallsyms", env!("CARGO_MANIFEST_DIR"));
        let recording = folder.file("recording.parquet");
        let run = ["import", &path, "--kallsyms", &kallsyms, "--output", &recording];
        let output = ceasefire(&run);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success(), "{text}");
        assert!(text.contains("  madvise: 50 requests of 50 flushes"), "{text}");
        let absent = format!("not in a {kind} file: the TLB row of /proc/interrupts");
        assert!(text.contains(&absent) && text.contains("does not have"), "{text}");
        let output = ceasefire(&[&run[..], &["--json", "-"]].concat());
        let summary: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(summary["imported"], kind);
        assert!(summary["tlb_row"].is_null() && summary["overhead"].is_null(), "{summary}");
        let output = ceasefire(&["replay", &recording, "--mechanism", "batched"]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        let note = format!("imported from a {kind} file");
        assert!(output.status.success() && text.replace('\n', " ").contains(&note), "{text}");
        let output = ceasefire(&["diff", &recording, &recording]);
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success() && text.contains("the first recording is imported from"), "{text}");
        fs::remove_file(&recording).expect("a file");
    }
    // The events csd:* counted with the first of a group, and not recorded.
    let path = |name: &str| format!("{}/../linux/recordings/import/{name}", env!("CARGO_MANIFEST_DIR"));
    let mut bytes = fs::read(path("perf.data")).expect("readable");
    let word =
        |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let [entry, first, length] = [16, 24, 32].map(|at| word(&bytes, at) as usize);
    for attributes in (first..first + length).step_by(entry) {
        if (527..530).contains(&word(&bytes, attributes + 8)) {
            bytes[attributes + 16..attributes + 24].fill(0);
        }
    }
    fs::write(folder.file("group"), &bytes).expect("writable");
    let run = [
        "import",
        &folder.file("group"),
        "--kallsyms",
        &path("kallsyms"),
        "--output",
        &folder.file("recording"),
    ];
    let text = String::from_utf8(ceasefire(&run).stdout).expect("UTF-8");
    assert!(
        text.contains("The file has no events csd:csd_queue_cpu and csd:csd_function_exit: record them"),
        "{text}"
    );
    // A directory.
    let path = format!("{}/../linux/recordings/import/perf-threads", env!("CARGO_MANIFEST_DIR"));
    folder.write("symbols", "ffffffff813424a0 t flush_tlb_func\n");
    let run = ["import", &path, "--kallsyms", &folder.file("symbols"), "--output", &folder.file("recording")];
    let output = ceasefire(&run);
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    assert!(text.starts_with("requests to flush: 51 in"), "{text}");
    // A recording with and without a name of its own, three times: the last but one is kept.
    let path = format!("{}/../linux/recordings/import/trace-6.dat", env!("CARGO_MANIFEST_DIR"));
    for (name, options) in [("recording.parquet", &[][..]), ("other", &["-o", "other"])] {
        for time in 0..3 {
            let output = command().current_dir(folder.path()).args(["import", &path]).args(options).output();
            let output = output.expect("the built command starts");
            let text = String::from_utf8(output.stdout).expect("UTF-8");
            assert_eq!(output.status.code(), Some(0));
            let written = if time == 0 {
                format!("\nwritten: {name}\n")
            } else {
                format!("\nwritten: {name} (the former one: {name}.old)\n")
            };
            assert!(text.contains(&written), "{text}");
        }
        let kept = [name.to_owned(), format!("{name}.old")].map(|name| folder.contents().contains_key(&name));
        assert_eq!(kept, [true, true], "{:?}", folder.contents().keys());
    }
    folder.write("text", "no file of perf");
    refuses(&folder, &["replay", "text"], &["text: it is no recording: not a Parquet file"]);
    refuses(
        &folder,
        &["import", "text"],
        &["text: it is neither a perf.data file of perf record nor a trace.dat file"],
    );
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_first_run() {
    let folder = Folder::new();
    folder.write("file", "kept");
    fs::create_dir(folder.file("folder")).expect("writable");
    // The run would take minutes at the paper's size.
    let run = ["compare", "mmap-read", "--machine", "1-socket", "--mechanism", "batched", "--scale", "1"];
    for option in ["--json", "--table", "--html", "--trace"] {
        for (path, reason) in [
            ("/nowhere/results", "there is no folder /nowhere"),
            ("none/results", "there is no folder none"),
            ("none/a\nb", "none/a\\nb: there is no folder none"),
            ("folder", "directory"),
            ("folder/", "folder/: it is the name of a folder"),
            ("new/", "new/: it is the name of a folder"),
            ("..", "directory"),
            ("file/results", "irectory"),
            ("", "a value is required for"),
        ] {
            refuses(&folder, &[&run[..], &[option, path]].concat(), &[reason]);
            refuses(&folder, &["calibrate", "--output", path], &[reason]);
        }
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        for (link, target) in [("circle", "circle"), ("to-folder", "folder"), ("to-nowhere", "none/results")]
        {
            symlink(target, folder.file(link)).expect("a link");
            refuses(&folder, &[&run[..], &["--json", link]].concat(), &["cannot write", link]);
        }
    }
}

#[test]
fn standard_output_is_for_one_text() {
    let folder = Folder::new();
    let run = [RUN, SMALL].concat();
    for (outputs, part) in [
        (
            &["--json", "-", "--table", "-"][..],
            "--json and --table cannot both be written to standard output",
        ),
        (&["--html", "-"], "--html writes to a file, not to standard output"),
        (&["--trace", "-"], "--trace writes to a file, not to standard output"),
        (&["--json", "-", "--html", "-"], "--html writes to a file, not to standard output"),
    ] {
        refuses(&folder, &[&run[..], outputs].concat(), &[part]);
    }
    for output in ["-o", "--output"] {
        refuses(&folder, &["calibrate", output, "-"], &["--output writes to a file, not to standard output"]);
    }
}

#[test]
fn no_two_options_name_one_file() {
    let folder = Folder::new();
    let name = folder.path().file_name().and_then(OsStr::to_str).expect("UTF-8").to_owned();
    let detour = format!("../{name}/out");
    let run = [RUN, SMALL].concat();
    // First without the file, then with it.
    for _ in 0..2 {
        for (one, path, other) in [
            ("--json", "out", "--html"),
            ("--json", "./out", "--table"),
            ("--table", &detour, "--html"),
            ("--html", "out", "--trace"),
            ("--json", &detour, "--trace"),
        ] {
            let parts = [&format!("{one} and {other} name the same file: out")[..]];
            refuses(&folder, &[&run[..], &[one, path, other, "out"]].concat(), &parts);
        }
        folder.write("out", "kept");
    }
    folder.write("machine.toml", MACHINE);
    let run = ["mmap-read", "--machine", "machine.toml"];
    refuses(
        &folder,
        &[&run[..], &["--json", "machine.toml"]].concat(),
        &["--machine and --json name the same"],
    );
    let matrix = include_str!("../../sim/machine/latencies/intel-core-i7-6700k.csv");
    folder.write("matrix.csv", matrix);
    folder.write("measured.toml", &MACHINE.replace("intel-core-i7-6700k.csv", "matrix.csv"));
    let part = "the machine and --table name the same file: matrix.csv";
    refuses(&folder, &["mmap-read", "--machine", "measured.toml", "--table", "matrix.csv"], &[part]);
    let process = "[[process]]\nname = 'p'\n[[process.phase]]\ntimes = 1\ndo = [{ compute = '1 us' }]\n";
    folder.write("workload.toml", &format!("machines = ['measured.toml']\n{process}"));
    for file in ["measured.toml", "matrix.csv"] {
        let part = format!("the machine and --json name the same file: {file}");
        refuses(&folder, &["compare", "workload.toml", "--json", file], &[&part]);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::symlink;
        symlink("out", folder.file("soft")).expect("a link");
        symlink("soft", folder.file("softer")).expect("a link");
        symlink("new", folder.file("to-new")).expect("a link");
        fs::hard_link(folder.file("out"), folder.file("hard")).expect("a link");
        fs::hard_link(folder.file("machine.toml"), folder.file("copy.toml")).expect("a link");
        for (one, other) in
            [("out", "soft"), ("hard", "out"), ("hard", "softer"), ("soft", "softer"), ("new", "to-new")]
        {
            let outputs = ["--json", one, "--table", other];
            let part = format!("--json and --table name the same file: {other}");
            refuses(&folder, &[RUN, SMALL, &outputs].concat(), &[&part]);
        }
        refuses(&folder, &[&run[..], &["--html", "copy.toml"]].concat(), &["--machine and --html"]);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_output_that_fails_does_not_stop_the_others() {
    let folder = Folder::new();
    let json = folder.file("results.json");
    let run = [RUN, SMALL].concat();
    let output = ceasefire(&[&run[..], &["--html", "/dev/full", "--json", &json]].concat());
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 1), "{message}");
    assert!(message.contains("/dev/full"), "{message}");
    let text = fs::read_to_string(&json).expect("readable");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("tlb-flush2 on milan-36"));

    let output = ceasefire(&[&run[..], &["--html", "/dev/full", "--json", "/dev/full"]].concat());
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), message.lines().count()), (Some(2), 2), "both are reported: {message}");
}

#[test]
fn a_run_that_fails_does_not_stop_the_others() {
    let processes =
        ["tlb-flush2-processes", "--machine", "small-vm", "--scale", "0.1", "--mechanism", "batched"];
    let compared = |threads: &str| {
        let more = ["--quiet", "--repeats", "1", "--threads", threads, "--json", "-"];
        ceasefire(&[&processes[..], &more].concat())
    };
    // The memory is enough for four threads, but not for 1600.
    let output = compared("4,1600");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("of 1600 threads failed: out of memory"), "{message}");
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let results = results["results"].as_array().expect("a list");
    assert_eq!(results.iter().map(|result| result["threads"].as_u64()).collect::<Vec<_>>(), [Some(4)]);
    let output = compared("1600,1800");
    let message = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{message}");
    assert!(message.contains("1600") && message.contains("1800"), "each is reported: {message}");
}
