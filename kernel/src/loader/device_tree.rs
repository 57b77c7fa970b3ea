//! The device tree that a loader hands over (Devicetree Specification 0.4, chapter 5): nested nodes with properties.
//!
//! The structure block says where nodes and properties begin and end. The strings block holds the names of properties.
//! All numbers are big-endian. A node's parent says how many words an address and a length have in the node's
//! registers.

/// The number at the start of a tree.
const MAGIC: u32 = 0xd00d_feed;
/// Bytes of the header.
const HEADER: usize = 40;
/// A tree begins at a multiple of this.
#[cfg_attr(test, allow(dead_code, reason = "tests have no loader"))]
pub(crate) const ALIGNMENT: u64 = 8;
/// The kinds of token.
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOTHING: u32 = 4;
/// The deepest nesting of nodes that is understood.
const DEPTH: usize = 16;

/// The number of words in an address, and in a length.
type Cells = (usize, usize);
/// The counts for the root itself. No register depends on them.
const CELLS: Cells = (2, 1);

/// A device tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tree<'a> {
    structure: &'a [u8],
    strings: &'a [u8],
}

/// A node, without the nodes inside it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node<'a> {
    tree: Tree<'a>,
    name: &'a str,
    /// Where its properties begin in the structure.
    at: usize,
    /// The counts for its registers, from its parent.
    cells: Cells,
}

/// The word at byte `at`.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at.checked_add(4)?)?.try_into().ok().map(u32::from_be_bytes)
}

/// The text before the first zero byte.
fn text(bytes: &[u8]) -> Option<&str> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    core::str::from_utf8(&bytes[..end]).ok()
}

/// The number in the first `words` words.
fn number(bytes: &[u8], words: usize) -> Option<u64> {
    (0..words).try_fold(0, |value: u64, index| Some(value << 32 | u64::from(word(bytes, 4 * index)?)))
}

/// The bytes of the tree that begins at `start`, or `None` if the header is not a tree's.
///
/// # Safety
/// The bytes of a header must be readable at `start`. If they are a tree's, so must be as many bytes as the header
/// says, and none of them may change.
#[cfg_attr(test, allow(dead_code, reason = "tests have no loader"))]
pub(crate) unsafe fn bytes_at<'a>(start: *const u8) -> Option<&'a [u8]> {
    // SAFETY: as the caller guarantees.
    let header = unsafe { core::slice::from_raw_parts(start, HEADER) };
    let bytes = (word(header, 0)? == MAGIC).then(|| word(header, 4))?? as usize;
    // SAFETY: as the caller guarantees.
    Some(unsafe { core::slice::from_raw_parts(start, bytes.max(HEADER)) })
}

impl<'a> Tree<'a> {
    /// The tree in these bytes, or `None` if they are not one.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<Self> {
        let block = |start: usize, length: usize| {
            let (start, length) = (word(bytes, start)? as usize, word(bytes, length)? as usize);
            bytes.get(start..start.checked_add(length)?)
        };
        (word(bytes, 0)? == MAGIC).then_some(())?;
        Some(Self { structure: block(8, 36)?, strings: block(12, 32)? })
    }

    /// The token at a byte of the structure, and where the next one is.
    fn token(&self, at: usize) -> Option<(Token<'a>, usize)> {
        let after = |end: usize| end.next_multiple_of(4);
        match word(self.structure, at)? {
            BEGIN_NODE => {
                let name = text(self.structure.get(at + 4..)?)?;
                Some((Token::Begin(name), after(at + 4 + name.len() + 1)))
            }
            END_NODE => Some((Token::End, at + 4)),
            PROPERTY => {
                let (length, name) =
                    (word(self.structure, at + 4)? as usize, word(self.structure, at + 8)? as usize);
                let end = (at + 12).checked_add(length)?;
                let (name, value) = (text(self.strings.get(name..)?)?, self.structure.get(at + 12..end)?);
                Some((Token::Property(name, value), after(end)))
            }
            NOTHING => Some((Token::Nothing, at + 4)),
            _ => None,
        }
    }

    /// All nodes, each before the nodes inside it.
    pub(crate) fn nodes(self) -> impl Iterator<Item = Node<'a>> {
        let (mut at, mut depth) = (0, 0);
        // The counts of the open nodes, the root's parent first.
        let mut open = [CELLS; DEPTH + 1];
        let next = move || loop {
            let (token, next) = self.token(at)?;
            at = next;
            match token {
                Token::Begin(name) => {
                    let node = Node { tree: self, name, at, cells: open[depth] };
                    depth += 1;
                    *open.get_mut(depth)? = node.children_cells();
                    return Some(node);
                }
                Token::End => depth = depth.checked_sub(1)?,
                Token::Property(..) | Token::Nothing => {}
            }
        };
        core::iter::from_fn(next).fuse()
    }

    /// The first node with this name in its `compatible` property.
    pub(crate) fn find(self, compatible: &str) -> Option<Node<'a>> {
        self.nodes().find(|node| {
            let names = node.property("compatible").unwrap_or(&[]);
            names.split(|&byte| byte == 0).any(|name| name == compatible.as_bytes())
        })
    }

    /// The nodes of a type: memory, CPUs.
    pub(crate) fn of_type(self, kind: &str) -> impl Iterator<Item = Node<'a>> + use<'a, '_> {
        self.nodes().filter(move |node| node.text("device_type") == Some(kind))
    }

    /// A text property of the first node with this name.
    pub(crate) fn text(self, node: &str, property: &str) -> Option<&'a str> {
        self.nodes().find(|other| other.name == node)?.text(property)
    }
}

/// A token of the structure; a property has its name and value.
enum Token<'a> {
    Begin(&'a str),
    End,
    Property(&'a str, &'a [u8]),
    Nothing,
}

impl<'a> Node<'a> {
    /// The value of a property.
    fn property(&self, wanted: &str) -> Option<&'a [u8]> {
        let mut at = self.at;
        // A node's properties come before the nodes inside it.
        loop {
            match self.tree.token(at)? {
                (Token::Property(name, value), _) if name == wanted => return Some(value),
                (Token::Property(..) | Token::Nothing, next) => at = next,
                _ => return None,
            }
        }
    }

    /// The counts for the registers of the nodes inside it.
    fn children_cells(&self) -> Cells {
        let count = |name, otherwise| {
            let words = self.property(name).and_then(|value| word(value, 0));
            words.filter(|&words| words <= 2).map_or(otherwise, |words| words as usize)
        };
        // The specification does not inherit them. But QEMU adds the files that it loads to a node without counts, and
        // uses the root's.
        (count("#address-cells", self.cells.0), count("#size-cells", self.cells.1))
    }

    /// The value of a property that is text.
    pub(crate) fn text(&self, property: &str) -> Option<&'a str> {
        text(self.property(property)?)
    }

    /// Its registers or pieces of memory: where each begins, and how many bytes it has.
    pub(crate) fn registers(self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let (address, length) = self.cells;
        let value = self.property("reg").unwrap_or(&[]);
        let each = value.chunks_exact((4 * (address + length)).max(4));
        each.filter_map(move |bytes| Some((number(bytes, address)?, number(&bytes[4 * address..], length)?)))
    }

    /// Its number among its neighbours. For a CPU this is the affinity.
    pub(crate) fn number(self) -> Option<u64> {
        number(self.property("reg")?, self.cells.0)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    /// A builder of trees.
    #[derive(Default)]
    struct Made {
        structure: Vec<u8>,
        strings: Vec<u8>,
    }

    impl Made {
        fn word(&mut self, word: u32) {
            self.structure.extend(word.to_be_bytes());
        }

        fn pad(&mut self) {
            self.structure.resize(self.structure.len().next_multiple_of(4), 0);
        }

        fn node(&mut self, name: &str, inside: impl FnOnce(&mut Self)) {
            self.word(BEGIN_NODE);
            self.structure.extend(name.bytes().chain([0]));
            self.pad();
            inside(self);
            self.word(END_NODE);
        }

        fn property(&mut self, name: &str, value: &[u8]) {
            let place = self.strings.len() as u32;
            self.strings.extend(name.bytes().chain([0]));
            for word in [PROPERTY, value.len() as u32, place] {
                self.word(word);
            }
            self.structure.extend(value);
            self.pad();
        }

        fn words(&mut self, name: &str, words: &[u32]) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            self.property(name, &bytes);
        }

        fn bytes(&self) -> Vec<u8> {
            let (structure, strings) = (self.structure.len() as u32, self.strings.len() as u32);
            let header = HEADER as u32;
            let total = header + structure + strings;
            [MAGIC, total, header, header + structure, 0, 17, 16, 0, strings, structure]
                .iter()
                .flat_map(|word| word.to_be_bytes())
                .chain(self.structure.iter().copied())
                .chain(self.strings.iter().copied())
                .collect()
        }
    }

    /// A machine like QEMU's.
    fn machine() -> Vec<u8> {
        let mut made = Made::default();
        made.node("", |root| {
            root.words("#address-cells", &[2]);
            root.words("#size-cells", &[2]);
            root.node("memory@40000000", |memory| {
                memory.words("reg", &[0, 0x4000_0000, 1, 0x1000]);
                memory.property("device_type", b"memory\0");
            });
            root.word(NOTHING);
            root.node("cpus", |cpus| {
                cpus.words("#address-cells", &[1]);
                cpus.words("#size-cells", &[0]);
                for number in [0, 0x100] {
                    cpus.node("cpu", |cpu| {
                        cpu.property("device_type", b"cpu\0");
                        cpu.words("reg", &[number]);
                    });
                }
            });
            root.node("intc", |controller| {
                controller.words("reg", &[0, 0x800_0000, 0, 0x1_0000, 0, 0x80a_0000, 0, 0xf6_0000]);
                controller.property("compatible", b"any,gic\0arm,gic-v3\0");
            });
            root.node("chosen", |chosen| {
                chosen.property("bootargs", b"program=hello nodes=1\0");
                chosen.node("module@41000000", |module| {
                    module.words("reg", &[0, 0x4100_0000, 0, 77]);
                    module.property("compatible", b"multiboot,module\0multiboot,ramdisk\0");
                });
            });
        });
        made.word(9);
        made.bytes()
    }

    #[test]
    fn a_machine_is_read_from_its_tree() {
        let bytes = machine();
        let tree = Tree::new(&bytes).unwrap();
        let memory: Vec<_> = tree.of_type("memory").flat_map(Node::registers).collect();
        assert_eq!(memory, [(0x4000_0000, 0x1_0000_1000)]);
        let cpus: Vec<_> = tree.of_type("cpu").filter_map(Node::number).collect();
        assert_eq!(cpus, [0, 0x100]);
        let controller = tree.find("arm,gic-v3").unwrap();
        assert_eq!(
            controller.registers().collect::<Vec<_>>(),
            [(0x800_0000, 0x1_0000), (0x80a_0000, 0xf6_0000)]
        );
        assert_eq!(tree.text("chosen", "bootargs"), Some("program=hello nodes=1"));
        let programs = tree.find("multiboot,ramdisk").unwrap();
        assert_eq!(programs.registers().next(), Some((0x4100_0000, 77)));
        assert_eq!(tree.nodes().count(), 8);
        assert!(tree.find("arm,gic").is_none() && tree.text("chosen", "reg").is_none());
    }

    #[test]
    fn nodes_end_where_a_tree_is_too_deep() {
        fn nest(made: &mut Made, depth: usize) {
            if depth > 0 {
                made.node("in", |inside| nest(inside, depth - 1));
            }
        }
        let mut made = Made::default();
        nest(&mut made, 4 * DEPTH);
        let bytes = made.bytes();
        let mut nodes = Tree::new(&bytes).unwrap().nodes();
        assert_eq!(nodes.by_ref().count(), DEPTH);
        assert!(nodes.next().is_none());
    }

    #[test]
    fn bytes_that_are_no_tree_are_refused_and_damaged_trees_end() {
        let bytes = machine();
        assert!(Tree::new(&[]).is_none() && Tree::new(&bytes[1..]).is_none());
        for end in 0..bytes.len() {
            assert!(Tree::new(&bytes[..end]).is_none(), "{end}");
        }
        // With any one byte changed, lookups may find nothing, but all walks end.
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            let Some(tree) = Tree::new(&changed) else { continue };
            assert!(tree.nodes().count() <= 8);
            let _ = tree.find("arm,gic-v3").map(|node| node.registers().count());
        }
    }
}
