//! `cargo xtask adopt ostd`: ostd, a framework for kernels that others wrote, on this project's engine.
//!
//! ostd is fetched from the registry in the version that `ports/ostd` is for. Our files are laid over its own, and a few
//! lines are edited. Then its own tests run in QEMU, without KVM, on x86-64 or riscv64, or in Bochs, which has PCIDs; or
//! `rounds` counts what unmaps cost, beside ostd as it is published.
//!
//! `edits` changes lines of another project, `port` makes a copy of ostd, `runner` judges its tests, `rounds` and
//! `conformance` compare two copies.

mod conformance;
mod edits;
mod port;
mod rounds;
mod runner;

use crate::failure::Failure;
use port::{Arch, Emulator, Layer, Ostd, Run};

/// What to run.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    what: What,
    arch: Arch,
    emulator: Emulator,
    cpus: u32,
}

#[derive(Debug, PartialEq, Eq)]
enum What {
    /// ostd's own tests and our probes, on the engine or as it is published.
    Tests {
        on_engine: bool,
    },
    Rounds,
    Instructions,
    Conformance,
    /// The same on the engine without a guard.
    Without(String),
}

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        let mut options = Self {
            what: What::Tests { on_engine: true },
            arch: Arch::X86_64,
            emulator: Emulator::Qemu,
            cpus: 4,
        };
        let mut arguments = arguments.iter();
        match arguments.next() {
            Some(&"ostd") => {}
            Some(other) => return Err(Failure::usage(format!("`adopt {other}`: known: adopt ostd"))),
            None => return Err(Failure::usage("`adopt` needs the name of a kernel; known: ostd")),
        }
        while let Some(argument) = arguments.next() {
            match *argument {
                "--stock" => options.what = What::Tests { on_engine: false },
                "--rounds" => options.what = What::Rounds,
                "--instructions" => options.what = What::Instructions,
                "--conformance" => options.what = What::Conformance,
                "--bochs" => options.emulator = Emulator::Bochs,
                "--without" => {
                    let guard = arguments.next().copied().filter(|guard| !guard.starts_with('-'));
                    let guard =
                        guard.ok_or_else(|| Failure::usage("`--without` needs the name of a guard"))?;
                    options.what = What::Without(guard.to_owned());
                }
                "--arch" => {
                    let name = arguments.next().ok_or_else(|| Failure::usage("`--arch` needs a name"))?;
                    options.arch = Arch::find(name)?;
                }
                "--cpus" => {
                    let cpus = arguments.next().and_then(|cpus| cpus.parse().ok());
                    let cpus = cpus.filter(|cpus| (1..=64).contains(cpus));
                    options.cpus = cpus.ok_or_else(|| Failure::usage("`--cpus` needs a number, 1 to 64"))?;
                }
                other => {
                    let line = format!("unknown option `{other}`; known: --stock, --rounds, --instructions, --conformance, --without GUARD, --arch ARCH, --bochs and --cpus N");
                    return Err(Failure::usage(line));
                }
            }
        }
        let only = match options.what {
            What::Instructions => {
                Some("`--instructions` is for x86_64: the clock of riscv64 does not count instructions")
            }
            What::Without(_) => {
                Some("`--without` is for x86_64: QEMU 7.2 hides what riscv64 does without most guards")
            }
            _ => None,
        };
        if let (Some(line), Arch::Riscv64) = (only, options.arch) {
            return Err(Failure::usage(line));
        }
        if options.emulator == Emulator::Bochs {
            if options.arch != Arch::X86_64 {
                return Err(Failure::usage("`--bochs` is for x86_64"));
            }
            if matches!(options.what, What::Rounds | What::Instructions) {
                return Err(Failure::usage("`--bochs` is for tests, `--conformance` and `--without`"));
            }
        }
        Ok(options)
    }
}

pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let ostd = Ostd::fetch(options.arch, options.emulator)?;
    match &options.what {
        What::Tests { on_engine } => {
            let layers = if *on_engine { &[Layer::Engine, Layer::Probes][..] } else { &[Layer::Probes] };
            let folder = ostd.lay_out(layers)?;
            let run = Run::new("test", layers, options.cpus);
            runner::run(&mut ostd.osdk(&folder, &run)?, options.arch)
        }
        What::Rounds => rounds::compare(&ostd, options.cpus),
        What::Instructions => rounds::instructions(&ostd, options.cpus),
        What::Conformance => conformance::compare(&ostd, options.cpus),
        What::Without(guard) => conformance::without(&ostd, options.cpus, guard),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_refused() {
        let parsed = Options::parse(&["ostd", "--cpus", "8", "--stock"]).expect("options");
        let stock = What::Tests { on_engine: false };
        assert_eq!(parsed, Options { what: stock, arch: Arch::X86_64, emulator: Emulator::Qemu, cpus: 8 });
        let parsed = Options::parse(&["ostd", "--arch", "riscv64"]).expect("options");
        assert_eq!(parsed.arch, Arch::Riscv64);
        for wrong in [
            &[][..],
            &["linux"],
            &["ostd", "--cpus"],
            &["ostd", "--cpus", "0"],
            &["ostd", "--fast"],
            &["ostd", "--arch"],
            &["ostd", "--arch", "mips"],
            &["ostd", "--instructions", "--arch", "riscv64"],
            &["ostd", "--arch", "riscv64", "--without", "others"],
            &["ostd", "--arch", "riscv64", "--bochs"],
            &["ostd", "--bochs", "--rounds"],
        ] {
            assert_eq!(Options::parse(wrong).expect_err("must be refused").code(), 2, "{wrong:?}");
        }
    }
}
