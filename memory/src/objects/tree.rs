//! A radix tree that can be read while it is changed: whoever changes it copies the nodes that it shares with a reader.
//!
//! It is as high as its largest key needs, so that a small file has one node.

use alloc::sync::Arc;

const BITS: u32 = 6;
const WIDTH: usize = 1 << BITS;

/// What stands at a place of a node.
#[derive(Debug)]
enum Child<T> {
    Nothing,
    Node(Arc<Node<T>>),
    Leaf(Arc<T>),
}

impl<T> Clone for Child<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Nothing => Self::Nothing,
            Self::Node(node) => Self::Node(node.clone()),
            Self::Leaf(leaf) => Self::Leaf(leaf.clone()),
        }
    }
}

#[derive(Debug)]
struct Node<T>([Child<T>; WIDTH]);

impl<T> Node<T> {
    const EMPTY: Self = Self([const { Child::Nothing }; WIDTH]);
}

impl<T> Clone for Node<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Shared values by their keys. A copy of the tree costs as much as a counted reference.
#[derive(Debug)]
pub(crate) struct Tree<T> {
    /// The levels below the root: 0 if the root is a leaf.
    levels: u32,
    root: Child<T>,
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self { levels: 0, root: Child::Nothing }
    }
}

impl<T> Clone for Tree<T> {
    fn clone(&self) -> Self {
        Self { levels: self.levels, root: self.root.clone() }
    }
}

impl<T> Tree<T> {
    pub(crate) fn get(&self, key: u32) -> Option<&Arc<T>> {
        if !self.reaches(key) {
            return None;
        }
        let (mut child, mut level) = (&self.root, self.levels);
        loop {
            match child {
                Child::Nothing => return None,
                Child::Leaf(leaf) => return Some(leaf),
                Child::Node(node) => {
                    level -= 1;
                    child = &node.0[place(key, level)];
                }
            }
        }
    }

    /// The first value whose key is `from` or larger.
    pub(crate) fn next(&self, from: u32) -> Option<(u32, &Arc<T>)> {
        self.reaches(from).then(|| next_in(&self.root, self.levels, from))?
    }

    pub(crate) fn insert(&mut self, key: u32, value: Arc<T>) {
        while !self.reaches(key) {
            let below = core::mem::replace(&mut self.root, Child::Nothing);
            if !matches!(below, Child::Nothing) {
                let mut node = Node::EMPTY;
                node.0[0] = below;
                self.root = Child::Node(Arc::new(node));
            }
            self.levels += 1;
        }
        put(&mut self.root, self.levels, key, Some(value));
    }

    pub(crate) fn remove(&mut self, key: u32) {
        if self.reaches(key) {
            put(&mut self.root, self.levels, key, None);
        }
    }

    /// Whether the tree is high enough for a key.
    fn reaches(&self, key: u32) -> bool {
        key.checked_shr(BITS * self.levels).unwrap_or(0) == 0
    }
}

fn place(key: u32, level: u32) -> usize {
    (key >> (BITS * level)) as usize % WIDTH
}

fn next_in<T>(child: &Child<T>, level: u32, from: u32) -> Option<(u32, &Arc<T>)> {
    match child {
        Child::Nothing => None,
        Child::Leaf(leaf) => Some((from, leaf)),
        Child::Node(node) => {
            let (first, shift) = (place(from, level - 1), BITS * (level - 1));
            (first..WIDTH).find_map(|at| {
                let start = (from >> shift) + (at - first) as u32;
                next_in(&node.0[at], level - 1, from.max(start << shift))
            })
        }
    }
}

fn put<T>(child: &mut Child<T>, level: u32, key: u32, value: Option<Arc<T>>) {
    if level == 0 {
        *child = value.map_or(Child::Nothing, Child::Leaf);
        return;
    }
    if value.is_some() && matches!(child, Child::Nothing) {
        *child = Child::Node(Arc::new(Node::EMPTY));
    }
    let Child::Node(node) = child else { return };
    let removes = value.is_none();
    let node = Arc::make_mut(node);
    put(&mut node.0[place(key, level - 1)], level - 1, key, value);
    if removes && node.0.iter().all(|child| matches!(child, Child::Nothing)) {
        *child = Child::Nothing;
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// Keys of every height.
    fn keys() -> impl Strategy<Value = u32> {
        prop_oneof![0u32..70, 4_000u32..4_200, 262_000u32..262_300, Just(u32::MAX / 64), Just(u32::MAX)]
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_map_and_a_copy_stays_as_it_was(
            steps in prop::collection::vec((keys(), any::<bool>(), any::<bool>()), 1..100)
        ) {
            let (mut tree, mut map) = (Tree::default(), BTreeMap::new());
            let (mut copy, mut copied) = (tree.clone(), map.clone());
            for (number, (key, inserts, copies)) in steps.into_iter().enumerate() {
                if inserts {
                    tree.insert(key, Arc::new(number));
                    map.insert(key, number);
                } else {
                    tree.remove(key);
                    map.remove(&key);
                }
                for (tree, map) in [(&tree, &map), (&copy, &copied)] {
                    let at = |(key, value): (u32, &Arc<usize>)| (key, **value);
                    prop_assert_eq!(tree.get(key).map(|value| **value), map.get(&key).copied());
                    let next = map.range(key..).next().map(|(&key, &value)| (key, value));
                    prop_assert_eq!(tree.next(key).map(at), next);
                }
                if copies {
                    (copy, copied) = (tree.clone(), map.clone());
                }
            }
            for key in map.into_keys() {
                tree.remove(key);
            }
            prop_assert!(matches!(tree.root, Child::Nothing), "its nodes are gone with their last values");
        }
    }
}
