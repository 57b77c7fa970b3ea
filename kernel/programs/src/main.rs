//! The programs.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(not(target_os = "none"))]
fn main() {
    eprintln!("these programs run on the ceasefire kernel: `cargo xtask kernel` builds and boots it");
}

#[cfg(target_os = "none")]
#[unsafe(no_mangle)]
extern "C" fn start() -> ! {
    loop {}
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
