//! Links the image at the address where the kernel maps it.

fn main() {
    println!("cargo:rerun-if-changed=image.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let folder = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
        println!("cargo:rustc-link-arg=-T{folder}/image.ld");
        println!("cargo:rustc-link-arg=--no-pie");
    }
}
