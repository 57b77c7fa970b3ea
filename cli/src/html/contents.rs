//! The sections' anchors, and the list of contents that links to them.

use maud::{html, Markup};

/// The anchor of a section, and its name in the list.
pub(super) struct Anchor {
    pub(super) id: String,
    pub(super) name: String,
}

/// Hands out the anchors of a page, each once.
#[derive(Default)]
pub(super) struct Anchors(Vec<String>);

impl Anchors {
    /// An anchor for a section: the letters and digits of its name, with a number if another section has the same.
    pub(super) fn of(&mut self, name: &str) -> Anchor {
        let plain: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { ' ' })
            .collect();
        let words: Vec<&str> = plain.split_whitespace().collect();
        let base = if words.is_empty() { "section".to_owned() } else { words.join("-") };
        let mut id = base.clone();
        let mut number = 1;
        while self.0.contains(&id) {
            number += 1;
            id = format!("{base}-{number}");
        }
        self.0.push(id.clone());
        Anchor { id, name: name.to_owned() }
    }
}

impl Anchor {
    /// A heading's text as a link to itself.
    pub(super) fn link(&self, text: &Markup) -> Markup {
        html! { a.self href=(format!("#{}", self.id)) { (text) } }
    }
}

/// The list of contents.
pub(super) fn contents<'a>(anchors: impl Iterator<Item = &'a Anchor>) -> Markup {
    html! {
        nav aria-label="Contents" {
            ul { @for anchor in anchors { li { a href=(format!("#{}", anchor.id)) { (anchor.name) } } } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_plain_and_differ() {
        let mut anchors = Anchors::default();
        let ids = ["migrate on 2-socket", "Migrate on \"2 socket\"", "</a>é", "\n", "a"]
            .map(|name| anchors.of(name).id);
        assert_eq!(ids, ["migrate-on-2-socket", "migrate-on-2-socket-2", "a", "section", "a-2"]);
    }
}
