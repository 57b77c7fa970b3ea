//! Links the guest where the machine loads it.

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if variable("CARGO_CFG_TARGET_OS") == "none" {
        println!("cargo:rerun-if-changed=guest.ld");
        println!("cargo:rustc-link-arg=-T{}/guest.ld", variable("CARGO_MANIFEST_DIR"));
        println!("cargo:rustc-link-arg=--no-pie");
        let first = match variable("CARGO_CFG_TARGET_ARCH").as_str() {
            "x86_64" => 0x10_0000,
            "aarch64" => 0x4020_0000_u64,
            _ => 0x8020_0000,
        };
        println!("cargo:rustc-link-arg=--defsym=FIRST={first}");
    }
}
