//! Finding what a name means, and what it may have been meant to be.

use crate::failure::Failure;

/// How many letters differ, a swap of neighbours counting as two (Levenshtein, 1966).
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

/// There is no `what` called `name`: the nearest of the names that there are, and all of them.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str]) -> Failure {
    let nearest = known.iter().min_by_key(|known| distance(name, known)).copied().unwrap_or_default();
    let near = distance(name, nearest) <= nearest.len() / 2;
    let hint = if near { format!(", did you mean '{nearest}'?") } else { String::from(".") };
    Failure::Input(format!("no {what} is called '{name}'{hint} There are: {}", known.join(", ")))
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
