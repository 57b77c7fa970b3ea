//! A figure: its caption, its legend, the drawing and its numbers, with the drawing and its data to download.
//!
//! A download is a `data:` URI, so the page stays one file. The drawing to download stands alone: it has its legend
//! and its styles, in light colours. Programs that draw SVG often lack CSS variables, so their values replace
//! them.

use maud::{html, Markup, PreEscaped};
use percent_encoding::{utf8_percent_encode, AsciiSet, NON_ALPHANUMERIC};

use super::plot::{at, drawing, WIDTH};

/// The styles of all drawings. Their first rule holds the light colours.
pub(super) const STYLE: &str = include_str!("figure.css");
/// The characters that a URI in an attribute cannot hold as they are.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b';')
    .remove(b',')
    .remove(b'=')
    .remove(b'(')
    .remove(b')');
/// The height of a line of the legend in a drawing that stands alone, and the start of its text.
const LINE: f64 = 17.0;
const TEXT: f64 = 44.0;
const MARGIN: f64 = 10.0;

/// An entry of the legend: a sample, drawn 10 units high, and its name.
pub(super) struct Key {
    pub(super) sample: Markup,
    pub(super) width: u32,
    pub(super) name: String,
}

pub(super) struct Figure {
    /// The end of the names of its files.
    pub(super) file: &'static str,
    pub(super) caption: Markup,
    pub(super) legend: Vec<Key>,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) height: f64,
    pub(super) content: Markup,
    /// The numbers that unfold below the drawing.
    pub(super) numbers: Markup,
    /// The data in full, with a head.
    pub(super) rows: Vec<Vec<String>>,
}

impl Figure {
    /// The figure in the section `section`.
    pub(super) fn shown(&self, section: &str) -> Markup {
        let name = |ending: &str| format!("{section}-{}.{ending}", self.file);
        html! {
            figure {
                figcaption { (self.caption) }
                div.legend aria-hidden="true" {
                    @for key in &self.legend {
                        span {
                            svg.swatch width=(key.width) height="10" viewBox=(format!("0 0 {} 10", key.width)) { (key.sample) }
                            (key.name)
                        }
                    }
                }
                (drawing(self.height, &self.title, &self.description, &self.content))
                details { summary { "numbers" } div.scroll { (self.numbers) } }
                p.downloads {
                    a href=(uri("text/csv", &csv(&self.rows))) download=(name("csv")) { "data as CSV" }
                    a href=(uri("image/svg+xml", &self.alone())) download=(name("svg")) { "figure as SVG" }
                }
            }
        }
    }

    /// The drawing as a document of its own.
    fn alone(&self) -> String {
        let above = self.legend.len() as f64 * LINE + MARGIN;
        let (width, height) = (WIDTH + 2.0 * MARGIN, self.height + above + 2.0 * MARGIN);
        let text = html! {
            svg xmlns="http://www.w3.org/2000/svg" width=(at(width)) height=(at(height))
                viewBox=(format!("{} {} {} {}", at(-MARGIN), at(-MARGIN - above), at(width), at(height))) {
                title { (self.title) }
                desc { (self.description) }
                style { (PreEscaped(light())) }
                rect.paper x=(at(-MARGIN)) y=(at(-MARGIN - above)) width=(at(width)) height=(at(height)) {}
                @for (key, number) in self.legend.iter().zip(0u32..) {
                    @let top = f64::from(number) * LINE - above;
                    g transform=(format!("translate(0 {})", at(top))) {
                        (key.sample)
                        text x=(at(TEXT)) y="9.5" { (key.name) }
                    }
                }
                (self.content)
            }
        };
        // XML has no such characters, not even as references.
        text.into_string().chars().filter(|c| !c.is_control() || *c == '\n').collect()
    }
}

/// The styles of a drawing, with the light colours in the place of variables.
fn light() -> String {
    let (colours, rules) = STYLE.split_once("}\n").unwrap_or(("", STYLE));
    let colours = colours.split([';', '{']).filter_map(|colour| colour.trim().split_once(": "));
    colours.fold(rules.to_owned(), |rules, (name, value)| rules.replace(&format!("var({name})"), value))
}

/// The rows as comma-separated values.
fn csv(rows: &[Vec<String>]) -> String {
    let mut writer = csv::WriterBuilder::new().flexible(true).from_writer(Vec::new());
    for row in rows {
        // Writing to memory does not fail.
        let _ = writer.write_record(row);
    }
    writer.into_inner().map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
}

/// A number in full; empty if it is not finite.
pub(super) fn exact(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        String::new()
    }
}

/// The head of a table of values.
pub(super) fn head(names: &[&str]) -> Vec<String> {
    names.iter().copied().map(str::to_owned).collect()
}

fn uri(kind: &str, text: &str) -> String {
    format!("data:{kind};charset=utf-8,{}", utf8_percent_encode(text, ENCODED))
}

#[cfg(test)]
mod tests {
    use percent_encoding::percent_decode_str;
    use proptest::prelude::*;

    use super::*;

    fn figure(name: &str) -> Figure {
        Figure {
            file: "test",
            caption: html! { (name) },
            legend: vec![Key { sample: html! { path d="M1 5H33" {} }, width: 34, name: name.into() }],
            title: name.into(),
            description: name.into(),
            height: 100.0,
            content: html! { text { (name) } },
            numbers: html! { (name) },
            rows: vec![head(&["name", "value"]), vec![name.into(), exact(0.1)]],
        }
    }

    /// The files of a figure, decoded.
    fn files(shown: &str) -> Vec<String> {
        let links = shown.split("href=\"data:").skip(1);
        let decoded = |link: &str| {
            let (address, _) = link.split_once('"').expect("the end of the attribute");
            let (_, data) = address.split_once(',').expect("data");
            percent_decode_str(data).decode_utf8().expect("UTF-8").into_owned()
        };
        links.map(decoded).collect()
    }

    #[test]
    fn a_drawing_to_download_has_no_variables_and_its_legend() {
        let alone = figure("batched").alone();
        assert!(!alone.contains("var(") && !alone.contains("--"), "{alone}");
        assert!(alone.contains("#0b6aa8"), "{alone}");
        assert_eq!(alone.matches(">batched</text>").count(), 2, "the content and the legend");
    }

    #[test]
    fn a_number_in_data_is_complete_and_never_text() {
        assert_eq!([0.1 + 0.2, f64::NAN, f64::INFINITY].map(exact), ["0.30000000000000004", "", ""]);
    }

    proptest! {
        #[test]
        fn names_in_downloads_are_escaped_and_come_back(name in "[ -~é\n\u{1}]{1,40}") {
            let shown = figure(&name).shown("a-b").into_string();
            for href in shown.split("href=\"").skip(1) {
                let address = href.split('"').next().expect("an address");
                prop_assert!(address.chars().all(|c| c.is_ascii_graphic() && !"<>'#&".contains(c)), "{address}");
            }
            let [data, drawing] = &files(&shown)[..] else { panic!("two files in {shown}") };
            let mut reader = csv::Reader::from_reader(data.as_bytes());
            let rows: Vec<csv::StringRecord> = reader.records().collect::<Result<_, _>>().expect("a table");
            prop_assert_eq!(rows, [csv::StringRecord::from(vec![name.as_str(), "0.1"])]);
            let escaped = html! { (name) }.into_string().replace('\u{1}', "");
            prop_assert!(drawing.contains(&format!("<title>{escaped}</title>")), "{drawing}");
            prop_assert!(drawing.chars().all(|c| c == '\n' || !c.is_control()), "{drawing}");
        }
    }
}
