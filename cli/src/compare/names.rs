//! The answer to an unknown name: the nearest known name.

use crate::failure::Failure;

/// The number of edits between two names (Levenshtein, 1966). A swap of neighbouring letters counts as two.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, b) in other.iter().enumerate() {
            let best = (diagonal + usize::from(a != *b)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], best);
        }
    }
    row[other.len()]
}

/// The failure for a `name` that is not of a known `what`. It suggests the nearest known name, and lists all of them.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> Failure {
    let nearest = known.iter().min_by_key(|known| distance(name, known)).copied().unwrap_or_default();
    let near = distance(name, nearest) <= nearest.len() / 2;
    let hint = if near { format!("; did you mean '{nearest}'?") } else { String::from(".") };
    Failure::Input(format!("no {what} is called '{name}'{hint} Known {what}s: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distance_counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("batched", "batched"), 0);
    }
}
