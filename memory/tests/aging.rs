//! Which pages reclaim takes: those that were used least lately.

use ceasefire::Flush;
use ceasefire_memory::{Config, NodeLayout, ObjectId, Pages, PAGE_BYTES};

use crate::common::{at, config, end, exhaust, Rig, Space};

const HOT: u64 = 16;
const COLD: u64 = 64;

/// Reads a file once, which nobody maps.
fn read_once(rig: &Rig, file: ObjectId) {
    let bytes = (COLD * PAGE_BYTES) as usize;
    assert_eq!(rig.memory.read(file, 0, &mut vec![0; bytes]), Ok(bytes));
    rig.memory.list_collected();
}

/// The program uses its pages, and walks to each.
fn use_pages(rig: &Rig, space: &Space, start: u64) {
    rig.memory.engine().flush(space.coherence(), Flush::ALL);
    (0..HOT).for_each(|page| assert_eq!(rig.load(space, at(start, page)), Ok(0)));
}

#[test]
fn pages_used_in_two_rounds_outlast_pages_read_once() {
    let nodes = vec![NodeLayout::new(512)];
    let rig = Rig::by_hand(Config { nodes, lru_batch: 1, ..config(512) });
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let file = rig.memory.create_file(HOT as u32).unwrap();
    let streams: Vec<ObjectId> = (0..2).map(|_| rig.memory.create_file(COLD as u32).unwrap()).collect();
    let start = rig.memory.map_shared(&space, file, 0, Pages::new(HOT), false).unwrap();
    use_pages(&rig, &space, start);
    read_once(&rig, streams[0]);
    let mut taken = Vec::new();
    // Each new space takes a frame. In the end the pages of the first stream are gone.
    while rig.memory.cached_pages(streams[0]) > 0 {
        use_pages(&rig, &space, start);
        taken.push(rig.memory.new_space().unwrap());
    }
    assert_eq!(rig.memory.cached_pages(file), HOT, "used all the time");
    end(&rig, taken);
    rig.run(&space);
    read_once(&rig, streams[1]);
    // From here on the program uses nothing.
    let mut taken = Vec::new();
    while rig.memory.cached_pages(streams[1]) > COLD / 2 {
        taken.push(rig.memory.new_space().unwrap());
    }
    assert_eq!(rig.memory.cached_pages(file), HOT, "pages read once go first");
    end(&rig, taken);
    // Pages that were used often age, and go at last.
    let all = exhaust(&rig);
    assert_eq!(rig.memory.cached_pages(file), 0);
    end(&rig, all);
    rig.memory.exit(space);
    rig.platform().assert_no_violation();
}
