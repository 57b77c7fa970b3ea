//! Scratch.
use ceasefire_experiments::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let machine = if args[1].contains(".toml") { ceasefire_machine::config::Machine::from_file(args[1].as_ref()).unwrap() } else { ceasefire_machine::config::builtin(&args[1]).unwrap().unwrap() };
    let mut reports = vec![];
    for mechanism in Mechanism::ALL.into_iter().filter(|m| std::env::var("MECH").map_or(true, |n| n == m.name())) {
        let plan = Plan { experiment: &EXPERIMENTS[0], machine: machine.clone(), mechanism, scale: args[2].parse().unwrap(), seed: std::env::var("SEED").map_or(1, |s| s.parse().unwrap()), oracle: args.len() < 4, trace: None };
        reports.push(plan.run(|_| true).unwrap());
    }
    compare(&mut reports);
    for r in &reports { println!("{r:#?}"); 
       println!("faults+pages/s wall: {:.0} pages/s", r.operations as f64 / r.wall_s);
       println!("batch: shootdowns {} debts {} faults {} scanned {:.2} reclaimed {:.2}", r.shootdowns, r.debts_created, r.faults, r.pages_scanned as f64/r.operations as f64, r.pages_reclaimed as f64/r.operations as f64); println!("irq/page {:.3} sys/page us {:.2} kernel/page {:.2} lockwait/page us {:.3} answer/page {:.3}", r.interrupts as f64/r.operations as f64, r.system_s*1e6/r.operations as f64, r.kernel_s*1e6/r.operations as f64, r.lock_wait_s*1e6/r.operations as f64, r.answer_wait_s*1e6/r.operations as f64);
    }
}
