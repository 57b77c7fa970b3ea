//! Links the kernel where its boot code expects it.

fn main() {
    println!("cargo:rerun-if-changed=src/arch/x86_64/kernel.ld");
    let is = |name: &str, value: &str| std::env::var(name).as_deref() == Ok(value);
    if is("CARGO_CFG_TARGET_OS", "none") && is("CARGO_CFG_TARGET_ARCH", "x86_64") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg=-T{folder}/src/arch/x86_64/kernel.ld");
        println!("cargo:rustc-link-arg=--no-pie");
    }
}
