//! Writing to a file by system call, while two processes read it through mappings (R3, R6).
//!
//! No load may show an older version once the call has returned, and a mapping for loads alone must never let a store
//! through. The pages stay where they are unless memory is short; other scenarios test that.

use ceasefire_kernel_abi::{Error, Finding};

use crate::call;
use crate::line::log;
use crate::stale::law::Law;
use crate::stale::placement::OPERATOR;
use crate::stale::region::Region;
use crate::stale::scenario::{always, Phase, Process, Scenario};
use crate::stale::site::Site;

pub(super) const WRITE: Scenario = Scenario {
    name: "write",
    process: Process::Home,
    region: Region::Small,
    phases: &[Phase::LOADS],
    law: Law::Kept,
    possible: always,
    prepare: |site| {
        site.make_file(site.pages)?;
        site.map_file(false)
    },
    attach: Some(|site| site.map_file(false)),
    step: |site, _| write(site),
};

fn write(site: &Site) -> Result<(), Error> {
    let sequence = site.round + 1;
    for page in 0..site.pages {
        let owner = site.owner(OPERATOR, page);
        let value = owner.mark(sequence);
        call::write_file(site.file(), owner.offset(), value)?;
        let found = call::read_file(site.file(), owner.offset())?;
        if found != Some(value) {
            log(format_args!(
                "stale/write: page {page} of the file does not hold what was written: {found:x?}"
            ));
            call::report(Finding::LostWrite, owner.offset(), value, found.unwrap_or(0));
        }
        site.board.raise_version(page, sequence);
    }
    Ok(())
}
