//! Instructions and faults that drop translations.

use super::*;
use crate::arch::aarch64::Aarch64;

/// Registers of a CPU that are all zero.
struct Zeros;

impl Operands for Zeros {
    fn register(&self, _: usize) -> u64 {
        0
    }

    fn load(&self, _: u64) -> Option<u64> {
        None
    }
}

#[test]
fn a_fault_where_a_translation_should_have_been_dropped_is_found() {
    for (back, flushed, rights) in
        [(7, false, WRITABLE), (8, false, WRITABLE), (7, true, WRITABLE), (7, false, READ_ONLY)]
    {
        let mut guest = Guest::new();
        guest.map(0, 100 << PAGE | rights);
        guest.loads(1, 100);
        THREAD.set(7);
        guest.map(0, 0);
        if flushed {
            guest.flushes(1);
        }
        THREAD.set(back);
        guest.access(0, PROGRAM, 99, false, PROGRAM);
        let fault = Instruction::Fault;
        for _ in 0..2 {
            guest.watch.execute(&mut guest.cpus[1], fault, CODE, &Registers { first: PAGE_OF_PROGRAM });
        }
        let is_found = back == 7 && !flushed && rights == WRITABLE;
        assert_eq!(guest.kinds(), if is_found { vec![Kind::LateUse] } else { vec![] }, "{back} {flushed}");
        assert!(guest.finds().iter().all(|find| find.faulted));
        // A fault drops what was cached, so the frame that comes next is no other one.
        THREAD.set(7);
        guest.map(1, 101 << PAGE | WRITABLE);
        guest.loads(1, 101);
        assert_eq!(guest.finds().len(), usize::from(is_found));
    }
}

#[test]
fn a_cpu_that_was_reset_has_nothing_cached() {
    for reset in [false, true] {
        let mut guest = Guest::used();
        let (_, table) = guest.unlinks();
        guest.overwrites(table);
        if reset {
            let control = Instruction::Control { number: 0, from: 0 };
            guest.watch.execute(&mut guest.cpus[1], control, 0x9000, &Zeros);
            guest.cpus[1].learn(&Registers { first: 0 });
        }
        guest.switches(1);
        assert_eq!(guest.kinds(), if reset { vec![] } else { vec![Kind::TableReuse] });
    }
}

#[test]
fn global_translations_outlive_a_switch_and_large_ones_are_dropped_by_any_address() {
    let mut guest = Guest::new();
    guest.map(0, 100 << PAGE | GLOBAL | WRITABLE);
    guest.loads(1, 100);
    guest.switches(1);
    guest.map(0, 101 << PAGE | GLOBAL | WRITABLE);
    guest.returns();
    guest.loads(1, 101);
    assert_eq!(guest.kinds(), [Kind::StaleUse]);
    let mut guest = Guest::new();
    let large = guest.entry(PAGE_OF_PROGRAM, 1);
    guest.set(large, 0x40_0000 | LARGE | WRITABLE);
    guest.access(1, PAGE_OF_PROGRAM + 0x5000, 0x405, false, PROGRAM);
    guest.kernel_stores(0, large, 0x60_0000 | LARGE | WRITABLE);
    guest.flushes(1);
    guest.access(1, PAGE_OF_PROGRAM + 0x5000, 0x605, false, PROGRAM);
    assert_eq!(guest.kinds(), []);
    guest.kernel_stores(0, large, 0x40_0000 | LARGE | WRITABLE);
    guest.returns();
    guest.access(1, PAGE_OF_PROGRAM + 0x5000, 0x405, false, PROGRAM);
    assert_eq!(guest.kinds(), [Kind::StaleUse]);
}

#[test]
fn a_tlbi_drops_nothing_before_a_barrier_that_reaches_as_far() {
    let report = Report::create(std::path::Path::new("/dev/null")).expect("a file that takes all");
    let watch = Watch::new("aarch64", 2, Code::default(), report, || 0);
    let mut cpus = [0, 1].map(Cpu::<Aarch64>::new);
    let rights = Rights::default();
    let cached =
        Cached { frame: 1, rights, global: false, joint: 0, entry: 0x1000, version: 0, since: 0, by: 0 };
    let translation = Translation { frame: 1, shift: 12, rights, global: false, joint: 0 };
    let run = |cpu: &mut Cpu<Aarch64>, word: u32| {
        let what = Aarch64::decode(&word.to_le_bytes()).expect("an instruction that matters");
        watch.execute(cpu, what, 0, &Zeros);
    };
    let has_mail = |cpu: usize| watch.shared[cpu].has_mail.load(Ordering::Relaxed);
    let fill = |cpu: &mut Cpu<Aarch64>| cpu.tlb.insert(0, 0, &translation, cached);
    let is_going = |entry| watch.is_going(1, 0, 0, 12, &cached, entry);
    cpus.iter_mut().for_each(fill);
    assert!(!is_going(0x1000));
    // tlbi vmalle1is, dsb nsh, dsb ish.
    run(&mut cpus[0], 0xd508_831f);
    assert_eq!((cpus[0].tlb.len(), has_mail(1), is_going(0x1000)), (1, false, true));
    lock(&watch.shared[0].going).made.push(0x1000);
    assert!(!is_going(0x1000) && is_going(0x1008) && !watch.is_going(0, 0, 0, 12, &cached, 0));
    run(&mut cpus[0], 0xd503_379f);
    assert_eq!((cpus[0].tlb.len(), has_mail(1), is_going(0x1008)), (0, false, true));
    fill(&mut cpus[0]);
    run(&mut cpus[0], 0xd503_3b9f);
    // Its own were complete before.
    assert_eq!((cpus[0].tlb.len(), has_mail(0), has_mail(1), is_going(0x1008)), (1, false, true, false));
    watch.read_mail(&mut cpus[1]);
    assert_eq!(cpus[1].tlb.len(), 0);
    // tlbi vmalle1, dsb ish.
    cpus.iter_mut().for_each(fill);
    run(&mut cpus[1], 0xd508_871f);
    assert!(!watch.is_going(0, 0, 0, 12, &cached, 0));
    run(&mut cpus[1], 0xd503_3b9f);
    assert_eq!((cpus[0].tlb.len(), cpus[1].tlb.len(), has_mail(0)), (1, 0, false));
}

#[test]
fn a_cpu_has_nothing_cached_for_what_it_has_faulted_for() {
    let (mut cpu, rights) = (Cpu::<Aarch64>::new(0), Rights::default());
    let cached = Cached { frame: 1, rights, global: false, joint: 0, entry: 0, version: 0, since: 0, by: 0 };
    for page in 0..2 {
        cpu.tlb.insert(
            0,
            page << 12,
            &Translation { frame: 1, shift: 12, rights, global: false, joint: 0 },
            cached,
        );
    }
    cpu.lacks(0, 0x1008);
    assert_eq!((cpu.tlb.find(0, 0).count(), cpu.tlb.find(0, 0x1000).count()), (1, 0));
}
