//! The variants of a workload file: one for each combination of the values that its parameters take.
//!
//! `[sweep]` lists the values of each parameter. The text `"$NAME"` stands for the value of the parameter NAME, anywhere
//! in the file. `threads` and `lru_drain` are no such parameters: the command line can choose them too. Values that are
//! given take the place of those in the file.

use std::fmt;

use ceasefire_machine::document::{parse, suggestion, Entry, Error, Place, Problem};

use super::amount::is_name;
use super::language::Workload;
use super::read::{read, some_items};

/// The most variants of a file.
const MOST: usize = 256;
/// The parameters that the command line can choose.
const CHOSEN: [&str; 2] = ["threads", "lru_drain"];

/// The value of a parameter, as the file writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// The value, without quotation marks.
    pub text: String,
    /// Whether it is a text; otherwise it is a number.
    pub is_text: bool,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// A workload and the values of its parameters, by name.
pub(super) type Variant = (Vec<(String, Written)>, Workload);

/// Parameters, each with its values as they would stand in the file, without quotation marks.
pub type Given = [(String, Vec<String>)];

/// The values in the name of a variant: `batch=10,purge=never`.
pub(super) fn name_of(values: &[(String, Written)]) -> String {
    values.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(",")
}

/// Reads all variants of the workload that `text` describes, with the `given` values of some parameters. Errors name
/// `file`.
pub(super) fn read_all(file: &str, text: &str, given: &Given) -> Result<Vec<Variant>, Error> {
    let of_file = parameters(file, text)?;
    let line = |(name, values): &(String, Vec<String>)| {
        let own = of_file.iter().find(|(known, _)| known == name);
        written(name, values, own.map_or(&[], |(_, own)| own))
    };
    let written: Vec<String> = given.iter().map(line).collect();
    let mut parameters = of_file;
    for ((name, _), written) in given.iter().zip(&written) {
        let mut values = some_items(parse(file, written)?.take(name)?)?;
        match parameters.iter_mut().find(|(known, _)| known == name) {
            Some((_, of_file)) => std::mem::swap(of_file, &mut values),
            None => return Err(no_parameter(file, name, &parameters)),
        }
    }
    parameters.iter().try_for_each(|(_, values)| differ(values))?;
    let count = parameters.iter().try_fold(1usize, |count, (_, values)| count.checked_mul(values.len()));
    if count.is_none_or(|count| count > MOST) {
        let place = parse(file, text)?.take("sweep")?;
        let bound = format!("at most {MOST} combinations of values");
        return Err(place.place().error(Problem::invalid("too many combinations", bound)));
    }
    (0..count.unwrap_or(1)).map(|number| variant(file, text, &parameters, number)).collect()
}

/// Refuses a value that stands twice: two variants would have one name.
fn differ(values: &[Entry<'_>]) -> Result<(), Error> {
    for (number, value) in values.iter().enumerate() {
        if values[..number].iter().any(|other| other.written() == value.written()) {
            let again = value.written().unwrap_or_default();
            return Err(value.place().error(Problem::invalid(again, "a value that the list has only once")));
        }
    }
    Ok(())
}

/// The line of a file that gives a parameter these values in the place of its `own`. What looks like a number is a text if
/// the file has it as one, or has only texts.
fn written(name: &str, values: &[String], own: &[Entry<'_>]) -> String {
    let is_text = |text: &String| {
        let same = own.iter().find(|value| value.written().as_ref() == Some(text));
        same.map_or_else(|| own.iter().all(Entry::is_text), Entry::is_text)
    };
    let is_number = |text: &String| text.parse::<f64>().is_ok_and(f64::is_finite) && !is_text(text);
    let written = |text: &String| if is_number(text) { text.clone() } else { quoted(text) };
    // A key with quotation marks may have any name.
    let values: Vec<String> = values.iter().map(written).collect();
    format!("{} = [{}]", quoted(name), values.join(", "))
}

/// A text in quotation marks. TOML takes those of JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn no_parameter(file: &str, name: &str, parameters: &Parameters<'_>) -> Error {
    let known: Vec<&str> = parameters.iter().map(|(name, _)| name.as_str()).collect();
    let bound = match &known[..] {
        [] => "left out: the workload has no parameters".to_owned(),
        _ => {
            format!("one of its parameters: {}{}", known.join(", "), suggestion(name, known.iter().copied()))
        }
    };
    Problem::invalid(format!("parameter {name:?}"), bound).in_file(file)
}

type Parameters<'a> = Vec<(String, Vec<Entry<'a>>)>;

/// The parameters with their values, in the order of the file.
fn parameters<'a>(file: &'a str, text: &'a str) -> Result<Parameters<'a>, Error> {
    let Some(sweep) = parse(file, text)?.take_if_there("sweep") else { return Ok(Vec::new()) };
    let mut parameters = Vec::new();
    for (name, entry) in sweep.section()?.take_all() {
        if CHOSEN.contains(&name.as_str()) {
            continue;
        }
        if !is_name(&name) {
            let bound = "a name of letters, digits, - and _";
            return Err(entry.place().error(Problem::invalid(format!("{name:?}"), bound)));
        }
        let values = some_items(entry)?;
        if let Some(value) = values.iter().find(|value| value.written().is_none()) {
            return Err(value.wrong_type("a text or a number"));
        }
        parameters.push((name, values));
    }
    Ok(parameters)
}

/// The variant with this number, in which the values of the last parameter come one after the other.
fn variant(file: &str, text: &str, parameters: &Parameters<'_>, number: usize) -> Result<Variant, Error> {
    let mut left = number;
    let mut chosen: Vec<(&str, &Entry<'_>)> = parameters
        .iter()
        .rev()
        .map(|(name, values)| {
            let value = &values[left % values.len()];
            left /= values.len();
            (name.as_str(), value)
        })
        .collect();
    chosen.reverse();
    let mut root = parse(file, text)?;
    let find = |place: &Place<'_>, text: &str| match text.strip_prefix('$') {
        Some(name) if !CHOSEN.contains(&name) => match chosen.iter().find(|(known, _)| *known == name) {
            Some((_, value)) => Ok(Some((*value).clone())),
            None => Err(unknown(place, text, &chosen)),
        },
        _ => Ok(None),
    };
    root.replace_texts(&find)?;
    let values = chosen.iter().map(|&(name, value)| {
        let text = value.written().unwrap_or_default();
        (name.to_owned(), Written { text, is_text: value.is_text() })
    });
    Ok((values.collect(), read(root)?))
}

fn unknown(place: &Place<'_>, text: &str, chosen: &[(&str, &Entry<'_>)]) -> Error {
    let known: Vec<String> = chosen.iter().map(|(name, _)| format!("${name}")).collect();
    let near = suggestion(text, known.iter().map(String::as_str));
    let known = if known.is_empty() { "a parameter of [sweep]".into() } else { known.join(", ") };
    place.error(Problem::invalid(format!("{text:?}"), format!("{known}{near}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A workload with further lines before its processes, whose thread computes for `time`.
    fn file(lines: &str, time: &str) -> String {
        format!(
            "{lines}\n[[process]]\nname = \"p\"\n[[process.phase]]\ntimes = 3\ndo = [{{ compute = {time} }}]\n"
        )
    }

    fn names(text: &str) -> Result<Vec<String>, String> {
        named(text, &[])
    }

    fn named(text: &str, given: &[(&str, &[&str])]) -> Result<Vec<String>, String> {
        let owned = |values: &[&str]| values.iter().map(|&value| value.to_owned()).collect();
        let given: Vec<(String, Vec<String>)> =
            given.iter().map(|&(name, values)| (name.to_owned(), owned(values))).collect();
        let variants = read_all("f", text, &given).map_err(|error| error.to_string())?;
        Ok(variants.into_iter().map(|(values, _)| name_of(&values)).collect())
    }

    #[test]
    fn a_file_without_parameters_has_one_variant() {
        assert_eq!(names(&file("", "'1 us'")), Ok(vec![String::new()]));
    }

    #[test]
    fn each_combination_of_values_is_a_variant() {
        let text = file("[sweep]\na = [1, 2]\ntime = ['1 us', '2 us']\nthreads = [1]", "'$time'");
        let expected = ["a=1,time=1 us", "a=1,time=2 us", "a=2,time=1 us", "a=2,time=2 us"];
        assert_eq!(names(&text), Ok(expected.map(str::to_owned).to_vec()));
    }

    #[test]
    fn given_values_take_the_place_of_the_files() {
        let text = file("[sweep]\na = [1, 2]\ntime = ['1 us']", "'$time'");
        let expected = ["a=1,time=5 ns", "a=1,time=7 ns", "a=2,time=5 ns", "a=2,time=7 ns"];
        assert_eq!(named(&text, &[("time", &["5 ns", "7 ns"])]), Ok(expected.map(str::to_owned).to_vec()));
        assert_eq!(named(&text, &[("a", &["3"])]), Ok(vec!["a=3,time=1 us".to_owned()]));
        for (name, value, expected) in [
            (
                "tme",
                "1 us",
                "f: parameter \"tme\": must be one of its parameters: a, time; did you mean 'time'?",
            ),
            ("time", "soon", "f:8: process[0].phase[0].do[0].compute: "),
            ("threads", "2", "f: parameter \"threads\": must be one of its parameters: a, time"),
        ] {
            let error = named(&text, &[(name, &[value])]).expect_err("must be refused");
            assert!(error.starts_with(expected), "{error}");
        }
        let error = named(&text, &[("a", &[])]).expect_err("must be refused");
        assert_eq!(error, "f:1: a: a list of 0: must be 1 to 1048576 items");
        let error = named(&file("", "'1 us'"), &[("a", &["1"])]).expect_err("must be refused");
        assert_eq!(error, "f: parameter \"a\": must be left out: the workload has no parameters");
    }

    #[test]
    fn a_text_that_looks_like_a_number_is_given_as_a_text() {
        let text = |values| file(&format!("kernel.linux = '$k'\n[sweep]\nk = [{values}]"), "'1 us'");
        for values in ["'6.9', '6.18'", "'6.9', 6.18"] {
            assert_eq!(named(&text(values), &[("k", &["6.9"])]), Ok(vec!["k=6.9".to_owned()]), "{values}");
        }
        assert_eq!(named(&text("'6.9', '6.18'"), &[("k", &["6.12"])]), Ok(vec!["k=6.12".to_owned()]));
        assert!(named(&text("'6.9', 6.18"), &[("k", &["6.12"])]).is_err(), "beside a number it is a number");
        let of = file("[sweep]\na = [1]\ntime = ['1 us']", "'$time'");
        let variants = read_all("f", &of, &[("a".to_owned(), vec!["2".to_owned()])]).expect("valid");
        let texts = variants[0].0.iter().map(|(_, value)| value.is_text);
        assert_eq!(texts.collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn a_wrong_parameter_is_refused() {
        for (lines, time, expected) in [
            (
                "",
                "'$time'",
                "f:6: process[0].phase[0].do[0].compute: \"$time\": must be a parameter of [sweep]",
            ),
            (
                "[sweep]\ntime = ['1 us']",
                "'$tme'",
                "f:7: process[0].phase[0].do[0].compute: \"$tme\": must be $time; did you mean '$time'?",
            ),
            ("[sweep]\ntime = []", "'$time'", "f:2: sweep.time: a list of 0: must be 1 to 1048576 items"),
            (
                "[sweep]\ntime = [true]",
                "'$time'",
                "f:2: sweep.time[0]: expected a text or a number, found true or false",
            ),
            (
                "[sweep]\ntime = ['1 us', '2 us', '1 us']",
                "'$time'",
                "f:2: sweep.time[2]: 1 us: must be a value that the list has only once",
            ),
        ] {
            assert_eq!(names(&file(lines, time)), Err(expected.into()));
        }
        let list = |name| format!("{name} = {:?}\n", (0..100).collect::<Vec<_>>());
        let lines = format!("[sweep]\n{}{}", list("a"), list("b"));
        let expected = "f:1: sweep: too many combinations: must be at most 256 combinations of values";
        assert_eq!(names(&file(&lines, "'1 us'")), Err(expected.into()));
    }
}
