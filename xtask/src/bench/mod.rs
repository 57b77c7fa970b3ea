//! `cargo xtask bench`: the engine's costs and the simulator's speed, each beside its bound.

mod costs;
mod speed;

use serde_json::{json, Value};

use crate::failure::Failure;
use crate::json_file;
use crate::workspace::Workspace;

/// The options on the command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    /// Only the instruction counts.
    quick: bool,
    /// The file for the results as JSON; `-` is standard output, which then carries nothing else.
    json: Option<String>,
}

impl Options {
    pub(crate) fn parse(arguments: &[&str]) -> Result<Self, Failure> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--quick" => options.quick = true,
                "--json" => {
                    let file = arguments
                        .next()
                        .ok_or_else(|| Failure::usage("`--json` needs a file name or `-`"))?;
                    options.json = Some((*file).to_owned());
                }
                unknown => {
                    return Err(Failure::usage(format!(
                        "`bench` has the options --quick and --json FILE, not `{unknown}`"
                    )));
                }
            }
        }
        Ok(options)
    }
}

/// Measures and prints. Fails if an operation of the engine takes more instructions than its bound.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let tables = options.json.as_deref() != Some("-");
    let workspace = Workspace::load()?;
    let costs = costs::measure(&workspace)?;
    if tables {
        println!("{}", costs::format(&costs));
    }
    let speeds = if options.quick { Vec::new() } else { speed::measure(&workspace)? };
    if tables && !speeds.is_empty() {
        println!("{}", speed::format(&speeds));
    }
    if let Some(file) = &options.json {
        let costs: Vec<Value> = costs.iter().map(costs::Cost::json).collect();
        let speeds: Vec<Value> = speeds.iter().map(speed::Speed::json).collect();
        json_file::write(file, &json!({ "costs": costs, "speed": speeds }))?;
    }
    let exceeded: Vec<&str> = costs.iter().filter(|cost| !cost.holds()).map(costs::Cost::name).collect();
    if exceeded.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("more instructions than allowed: {}", exceeded.join(", "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_any_order() {
        let expected = Options { quick: true, json: Some("-".to_owned()) };
        assert_eq!(Options::parse(&["--quick", "--json", "-"]).unwrap(), expected);
        assert_eq!(Options::parse(&["--json", "-", "--quick"]).unwrap(), expected);
        assert_eq!(Options::parse(&[]).unwrap(), Options::default());
    }
}
