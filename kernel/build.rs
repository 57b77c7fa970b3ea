//! Links the kernel where its boot code expects it.

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    if variable("CARGO_CFG_TARGET_OS") == "none" {
        let script = format!("src/arch/{}/kernel.ld", variable("CARGO_CFG_TARGET_ARCH"));
        println!("cargo:rerun-if-changed={script}");
        println!("cargo:rustc-link-arg=-T{}/{script}", variable("CARGO_MANIFEST_DIR"));
        println!("cargo:rustc-link-arg=--no-pie");
    }
}
