//! Sets what distinguishes the checked build of the engine.
//!
//! It is a build script and no flag, so one program can hold both builds: `ceasefire check` runs the checked one beside
//! the simulator, which runs the other.

fn main() {
    println!("cargo:rerun-if-changed=../checked.rs");
    for cfg in ["ceasefire_checked", "ceasefire_sabotage"] {
        println!("cargo:rustc-cfg={cfg}");
    }
    // So small that ASIDs run out and sets span no second word.
    for (limit, value) in [("CPUS", "4"), ("ASIDS", "9")] {
        println!("cargo:rustc-env=CEASEFIRE_MAX_{limit}={value}");
    }
    println!("cargo:rustc-env=CEASEFIRE_PLACES=2");
}
