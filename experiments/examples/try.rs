//! Scratch.
use ceasefire_experiments::*;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let machine = ceasefire_machine::config::builtin(&args[1]).unwrap().unwrap();
    let mut reports = vec![];
    for mechanism in Mechanism::ALL {
        let plan = Plan { experiment: &EXPERIMENTS[0], machine: machine.clone(), mechanism, scale: args[2].parse().unwrap(), seed: 1, oracle: args.len() < 4, trace: None };
        reports.push(plan.run(|_| true).unwrap());
    }
    compare(&mut reports);
    for r in &reports { println!("{r:#?}"); 
       println!("faults+pages/s wall: {:.0} pages/s", r.operations as f64 / r.wall_s);
       println!("irq/page {:.3} sys/page us {:.2} kernel/page {:.2} lockwait/page us {:.3} answer/page {:.3}", r.interrupts as f64/r.operations as f64, r.system_s*1e6/r.operations as f64, r.kernel_s*1e6/r.operations as f64, r.lock_wait_s*1e6/r.operations as f64, r.answer_wait_s*1e6/r.operations as f64);
    }
}
