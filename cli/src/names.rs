//! Names that several commands take.

use ceasefire_experiments::Mechanism;

use crate::failure::Failure;

/// The mechanisms of these names, each once.
pub(crate) fn mechanisms(given: &[String]) -> Result<Vec<Mechanism>, Failure> {
    let find = |name: &String| name.parse::<Mechanism>().map_err(Failure::input);
    Ok(once(given.iter().map(find).collect::<Result<_, _>>()?, PartialEq::eq))
}

/// The items without duplicates of an earlier one.
pub(crate) fn once<T: Copy>(items: Vec<T>, same: impl Fn(&T, &T) -> bool) -> Vec<T> {
    let mut kept: Vec<T> = Vec::new();
    for item in items {
        if !kept.iter().any(|earlier| same(earlier, &item)) {
            kept.push(item);
        }
    }
    kept
}
