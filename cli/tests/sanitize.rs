//! `ceasefire sanitize`, with a script in the place of QEMU.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Output;

use crate::common::command;

/// What the plugin writes of a CPU that may still have an older frame.
const FIND: &str = r#"{"find":{"kind":"stale-use","used":{"cpu":1,"time":5000000,"instruction":"0x401000"},"address":"0x2000","store":false,"frame":"0x11","other":"0x10","cached":{"cpu":1,"time":1000000,"instruction":"0x401004"},"changed":{"place":{"cpu":0,"time":3000000,"instruction":"0xffffffff81000100","callers":["0xffffffff81001040"]},"before":"0x10007","after":"0x0"},"given":null,"dropped":null}}"#;
const BEGUN: &str = "{\"begin\":{\"target\":\"x86_64\",\"cpus\":2}}\n";
const END: &str = r#"{"end":{"finds":3,"written":1,"accesses":1234567,"looks":89,"tables":5,"invalidations":7,"unread":11,"windows":[],"uses":[3]}}"#;
const CLEAN: &str = r#"{"end":{"finds":0,"written":0,"accesses":1234567,"looks":89,"tables":5,"invalidations":7,"unread":11,"windows":[{"count":2,"sum":3000000,"longest":2500000,"changed":{"cpu":0,"time":3,"instruction":"0x1000","callers":["0x2000"]},"given":1}],"uses":[]}}"#;

/// An emulator that says that it is of a version, and writes a report.
struct Emulator {
    folder: tempfile::TempDir,
}

impl Emulator {
    fn new(version: &str, report: &[&str], status: u8) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let emulator = Self { folder };
        fs::write(emulator.path("plugin.so"), "").expect("a file");
        fs::write(emulator.path("lines"), report.concat()).expect("a file");
        let script = format!(
            "#!/bin/sh\n\
             case \"$*\" in --version) echo '{version}'; exit;; '-plugin help') exit;; esac\n\
             echo \"$@\" > {folder}/arguments\n\
             out=\"${{2#*,out=}}\"\n\
             cat {folder}/lines > \"${{out%,code=*}}\"\n\
             exit {status}\n",
            folder = emulator.folder.path().display()
        );
        fs::write(emulator.path("qemu"), script).expect("a file");
        fs::set_permissions(emulator.path("qemu"), fs::Permissions::from_mode(0o755)).expect("its own file");
        emulator
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, more: &[&str]) -> Output {
        let mut command = command();
        command.arg("sanitize").arg("--plugin").arg(self.path("plugin.so")).args(more);
        command.arg("--").arg(self.path("qemu")).args(["-smp", "2"]).output().expect("the command starts")
    }
}

const NEW: &str = "QEMU emulator version 10.0.2 (Debian)";

fn texts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_find_is_shown_with_its_places_and_functions() {
    let emulator = Emulator::new(NEW, &[BEGUN, FIND, "\n", END, "\n"], 0);
    fs::write(
        emulator.path("map"),
        "ffffffff81000000 T unmap\nffffffff81001000 t zap.part.0\nffffffff81002000 T last\n",
    )
    .expect("a file");
    let report = emulator.path("kept");
    let options =
        ["--kernel", emulator.path("map").to_str().expect("UTF-8"), "-o", report.to_str().expect("UTF-8")]
            .map(str::to_owned);
    let (code, out, error) = texts(&emulator.run(&options.each_ref().map(String::as_str)));
    assert_eq!(code, Some(1));
    let said: Vec<_> = error.lines().collect();
    // The first is there while the guest still runs.
    assert!(said[0].starts_with("ceasefire: a flush was missing; ") && said[0].contains("0x2000"), "{error}");
    assert_eq!(said[1..], ["ceasefire: flushes were missing: 1 find in 3 uses"]);
    for part in [
        "1. stale use (R7): CPU 1 loaded from 0x2000, frame 0x11, and might have used frame 0x10 instead",
        "; 3 alike\n",
        "        -4.000 ms  CPU 1   used first         0x401004\n",
        "        -2.000 ms  CPU 0   changed            0xffffffff81000100 (unmap+0x100), from 0x10007 to 0x0\n",
        " by zap.part.0+0x40\n        +0.000 ms  CPU 1   used               0x401000\n",
        "CPU 1 has flushed nothing before.",
        "1 find in 3 uses: 1.235M accesses were compared",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert!(fs::read_to_string(report).expect("it is kept").ends_with("}}\n"));
    let arguments = fs::read_to_string(emulator.path("arguments")).expect("it ran");
    assert!(arguments.starts_with("-plugin ") && arguments.ends_with(" -smp 2\n"), "{arguments}");
    assert!(arguments.contains(",code=ffffffff81000000+12000 "), "{arguments}");
}

#[test]
fn what_a_rule_names_is_left_out_and_counted() {
    let emulator = Emulator::new(NEW, &[BEGUN, FIND, "\n", END, "\n"], 0);
    let path = |name: &str| emulator.path(name).to_str().expect("UTF-8").to_owned();
    fs::write(path("map"), "ffffffff81000000 T unmap\nffffffff81001000 t zap.part.0\n").expect("a file");
    let rule = |kind: &str, function: &str| {
        format!(
            "[[suppress]]\nreason = \"It flushes later\"\nkind = \"{kind}\"\nchanged = [\"{function}\"]\n"
        )
    };
    for (kind, function, expected) in
        [("stale-use", "za*", 0), ("stale-use", "unmap", 0), ("reuse", "zap", 1), ("stale-use", "map", 1)]
    {
        fs::write(path("rules"), rule(kind, function)).expect("a file");
        let page = path("page.html");
        let options = ["--kernel", &path("map"), "--suppress", &path("rules"), "--html", &page];
        let (code, out, error) = texts(&emulator.run(&options));
        assert_eq!(code, Some(expected), "{kind} {function}: {out} {error}");
        let said = out.contains("Suppressed: 1 find in 3 uses: It flushes later.\nNo flush was missing");
        assert_eq!(said, expected == 0, "{out}");
        let page = fs::read_to_string(page).expect("a page");
        assert_eq!(page.contains("It flushes later"), expected == 0);
        assert_eq!(page.contains("<h2>1. stale use <span>R7</span></h2>"), expected == 1);
    }
    // The preset has rules for other functions.
    let (code, out, _) = texts(&emulator.run(&["--kernel", &path("map"), "--preset", "linux"]));
    assert!(code == Some(1) && !out.contains("Suppressed"), "{out}");
}

#[test]
fn the_functions_that_free_frames_are_followed() {
    let name = "trace_event_raw_event_mm_page_free";
    let run = |function: &str, end: &str| {
        let emulator = Emulator::new(NEW, &[BEGUN, end, "\n"], 0);
        let map = emulator.path("map");
        fs::write(&map, format!("ffffffff81000100 t {function}\n")).expect("a file");
        let options = ["--kernel", map.to_str().expect("UTF-8"), "--preset", "linux"];
        let (code, out, error) = texts(&emulator.run(&options));
        assert_eq!(code, Some(0), "{out} {error}");
        (out, fs::read_to_string(emulator.path("arguments")).expect("it ran"))
    };
    let (out, arguments) = run(name, CLEAN);
    assert!(arguments.contains(",free=ffffffff81000100:1:40::o2:ffffea0000000000:"), "{arguments}");
    assert!(out.contains("was not seen: boot Linux with trace_event=kmem:mm_page_free.\n"), "{out}");
    let (out, arguments) = run("other", CLEAN);
    assert!(!arguments.contains("free="), "{arguments}");
    assert!(out.contains(&format!("was not seen: --kernel has no function {name}.\n")), "{out}");
    let folder = tempfile::tempdir().expect("a folder");
    let [map, rules] = ["map", "rules"].map(|name| folder.path().join(name));
    let functions =
        (0..65_u64).map(|number| format!("{:x} t f{number}\n", 0xffff_ffff_8100_0000 + 16 * number));
    fs::write(&map, functions.collect::<String>()).expect("a file");
    fs::write(&rules, "[[free]]\nfunction = \"*\"\nargument = 1\nbytes = 64\n").expect("a file");
    let paths = [&map, &rules].map(|path| path.to_str().expect("UTF-8"));
    let emulator = Emulator::new(NEW, &[BEGUN, CLEAN, "\n"], 0);
    let (code, _, error) = texts(&emulator.run(&["--kernel", paths[0], "--suppress", paths[1]]));
    assert!(
        code == Some(2) && error.contains(": * names 65 functions, of which at most 64 may be"),
        "{error}"
    );
    let freed = |counts: &str| run(name, &CLEAN.replace("\"unread\"", &format!("{counts},\"unread\""))).0;
    let out = freed("\"freed\":7");
    assert!(out.contains("\n7 frames were freed.\n"), "{out}");
    let out = freed("\"freed\":7,\"unknown\":2");
    assert!(
        out.contains("\n7 frames were freed, and 2 calls freed what is no memory by the rule's base"),
        "{out}"
    );
}

#[test]
fn a_kept_report_is_shown_again_with_other_rules() {
    let emulator = Emulator::new(
        NEW,
        &[BEGUN, FIND, "\n", &FIND.replace("stale-use", "reuse"), "\n", &END.replace("[3]", "[3,1]"), "\n"],
        0,
    );
    let path = |name: &str| emulator.path(name).to_str().expect("UTF-8").to_owned();
    let kept = path("kept");
    let first = texts(&emulator.run(&["-o", &kept]));
    let read = |more: &[&str]| {
        texts(&command().args(["sanitize", "--read", &kept]).args(more).output().expect("it starts"))
    };
    let (code, out, error) = read(&[]);
    assert_eq!((code, &out), (first.0, &first.1));
    assert_eq!(error, "ceasefire: flushes were missing: 2 finds in 4 uses\n");
    assert!(out.contains("The finds in short:\n   1. stale use (R7), 3 uses: changed by 0x"), "{out}");
    fs::write(path("map"), "ffffffff81000000 T unmap\n").expect("a file");
    fs::write(path("rules"), "[[suppress]]\nreason = \"why\"\nchanged = [\"unmap\", \"umap\"]\n")
        .expect("a file");
    let (code, _, error) = read(&["--kernel", &path("map"), "--suppress", &path("rules")]);
    // A name that no function has is a mistake, or of another kernel.
    assert_eq!(code, Some(0));
    assert!(
        error.ends_with("rules: --kernel has no function umap\n") && error.lines().count() == 1,
        "{error}"
    );
    for (text, part) in [("", "there is no report of the plugin"), (BEGUN, "the report is not whole")] {
        fs::write(&kept, text).expect("a file");
        let (code, _, error) = read(&[]);
        assert!(code == Some(2) && error.contains(part) && error.contains("kept: "), "{error}");
    }
    // Nothing behind a line that cannot be read counts.
    fs::write(&kept, [BEGUN, FIND, "\nodd\n", FIND, "\n", END, "\n"].concat()).expect("a file");
    let (code, out, error) = read(&[]);
    assert!(code == Some(1) && out.contains("The report is not whole"), "{out}");
    assert_eq!(error, "ceasefire: flushes were missing: 1 find\n");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing() {
    let emulator = Emulator::new(NEW, &[BEGUN, FIND, "\n", END, "\n"], 0);
    let (code, out, error) = texts(&emulator.run(&["-o", "/dev/full"]));
    assert!(code == Some(1) && out.contains("1 find in 3 uses: "), "{out}");
    assert!(error.contains("cannot write /dev/full: No space left"), "{error}");
    let emulator = Emulator::new(NEW, &[BEGUN, CLEAN, "\n"], 0);
    assert_eq!(texts(&emulator.run(&["-o", "/dev/full"])).0, Some(2));
}

#[test]
fn no_find_is_said_so() {
    let (code, out, error) = texts(&Emulator::new(NEW, &[BEGUN, CLEAN, "\n"], 0).run(&[]));
    assert_eq!((code, error.as_str()), (Some(0), ""));
    assert!(out.starts_with("No flush was missing: 1.235M accesses were compared"), "{out}");
    assert!(
        out.ends_with(
            "flushed:\n  2.500 ms at most, 1.500 ms on average of 2, 1 with frames that were given away meanwhile: \
             0x1000 by 0x2000\n"
        ),
        "{out}"
    );
}

#[test]
fn a_run_in_which_nothing_was_compared_or_the_emulator_failed_is_no_clean_one() {
    let idle = CLEAN.replace("\"looks\":89", "\"looks\":0");
    for (report, status, part) in [(idle.as_str(), 0, "nothing was compared"), (CLEAN, 3, "exit status: 3")] {
        let (code, _, error) = texts(&Emulator::new(NEW, &[BEGUN, report, "\n"], status).run(&[]));
        assert!(code == Some(2) && error.contains(part) && error.lines().count() == 1, "{error}");
    }
}

#[test]
fn symbols_of_another_kernel_are_noticed() {
    let emulator = Emulator::new(NEW, &[BEGUN, CLEAN, "\n"], 0);
    let map = emulator.path("map");
    fs::write(&map, "ffffffff81000000 T unmap\n").expect("a file");
    let (code, out, _) = texts(&emulator.run(&["--kernel", map.to_str().expect("UTF-8")]));
    assert!(code == Some(0) && out.contains("None of these addresses is in a function of --kernel"), "{out}");
}

#[test]
fn a_report_that_is_cut_off_is_no_clean_one() {
    let (code, out, error) = texts(&Emulator::new(NEW, &[BEGUN, &CLEAN[..40]], 7).run(&[]));
    assert_eq!(
        (code, out.as_str()),
        (Some(2), "The report is not whole: QEMU was ended, or the file is cut off.\n")
    );
    assert!(error.ends_with("ended (exit status: 7): the report is not whole\n"), "{error}");
    // What was found before the end counts.
    let (code, out, _) = texts(&Emulator::new(NEW, &[BEGUN, FIND, "\n"], 7).run(&[]));
    assert!(code == Some(1) && out.contains("loaded from"), "{out}");
}

#[test]
fn an_unfit_emulator_is_refused_in_one_line() {
    let refused = |output: Output, part: &str| {
        let (code, out, error) = texts(&output);
        assert!(code == Some(2) && out.is_empty() && error.lines().count() == 1, "{error}");
        assert!(error.contains(part), "{error}");
    };
    refused(
        Emulator::new("QEMU emulator version 7.2.22", &[], 0).run(&[]),
        "is QEMU 7.2: plugins can read registers",
    );
    refused(Emulator::new("a shell", &[], 0).run(&[]), "does not say that it is QEMU");
    let emulator = Emulator::new(NEW, &[], 0);
    refused(emulator.run(&["--kernel", "/nowhere"]), "/nowhere: No such file");
    refused(emulator.run(&["-o", "/nowhere/report"]), "/nowhere/report");
    refused(emulator.run(&["--html", "/nowhere/page"]), "/nowhere/page");
    refused(Emulator::new(NEW, &[], 1).run(&[]), "ended (exit status: 1): there is no report of the plugin");
    refused(emulator.run(&["--preset", "linux"]), "--kernel");
    let mut daemon = command();
    daemon
        .args(["sanitize", "--plugin"])
        .arg(emulator.path("plugin.so"))
        .arg("--")
        .arg(emulator.path("qemu"));
    refused(daemon.arg("-daemonize").output().expect("it starts"), "-daemonize");
    refused(emulator.run(&["--read", "kept"]), "--read");
    let map = emulator.path("map");
    fs::write(&map, "ffffffff81000000 T unmap\n").expect("a file");
    let map = map.to_str().expect("UTF-8");
    refused(emulator.run(&["--kernel", map, "--suppress", "/nowhere"]), "/nowhere: No such file");
    refused(emulator.run(&["--kernel", map, "-o", map]), "--output and --kernel name the same file");
    refused(emulator.run(&["--kernel", map, "--suppress", map]), "map: line 1: ");
    fs::remove_file(emulator.path("plugin.so")).expect("its own file");
    refused(emulator.run(&[]), "the plugin is not there");
    refused(command().arg("sanitize").output().expect("it starts"), "required");
}
