//! Published figures belong to a machine's content, and not to its name.

use std::fs;

use serde_json::{json, Value};

use crate::common::{printed, Folder};

const MACHINE: &str = include_str!("../../sim/machine/machines/1-socket.toml");

/// The forms of the results of one quick run of a machine file.
struct Outputs {
    table: String,
    json: Value,
    page: String,
    /// The columns `published`, `label` and `built_in`, in each row.
    cells: Vec<[String; 3]>,
}

/// A quick run of a machine file with that text.
fn run(text: &str) -> Outputs {
    let folder = Folder::new();
    let machine = folder.write("machine.toml", text);
    let [json, csv, html] = ["out.json", "out.csv", "out.html"].map(|name| folder.file(name));
    let run = ["mmap-read", "--machine", &machine, "--scale", "0.003", "--repeats", "1", "--check=none"];
    let outputs = ["--mechanism", "per-page,batched", "--json", &json, "--table", &csv, "--html", &html];
    let table = printed(&[&run[..], &outputs].concat());
    let json = serde_json::from_str(&fs::read_to_string(json).expect("readable")).expect("JSON");
    let mut reader = csv::Reader::from_path(csv).expect("readable");
    let heads = reader.headers().expect("a head").clone();
    let columns = ["published", "label", "built_in"]
        .map(|name| heads.iter().position(|head| head == name).expect("a column"));
    let rows = reader.records().map(|row| row.expect("a row"));
    let cells = rows.map(|row| columns.map(|column| row[column].to_owned())).collect();
    Outputs { table, json, page: fs::read_to_string(html).expect("readable"), cells }
}

fn replaced(from: &str, to: &str) -> String {
    assert_eq!(MACHINE.matches(from).count(), 1, "{from}");
    MACHINE.replace(from, to)
}

#[test]
fn a_copy_with_one_cost_changed_has_no_published_figure_and_no_label() {
    let Outputs { table, json, page, cells } =
        run(&replaced("[costs.lock]\nvalue = 20", "[costs.lock]\nvalue = 21"));
    for result in json["results"].as_array().expect("a list") {
        assert_eq!(result["machine"], "1-socket", "under the same name");
        assert_eq!((&result["published"], &result["built_in"]), (&json!({}), &Value::Null));
    }
    for headline in json["summary"].as_array().expect("a list") {
        assert_eq!((&headline["published"], &headline["label"]), (&Value::Null, &"".into()));
    }
    assert_eq!(json["machines"][0]["built_in"], Value::Null);
    assert!(cells.len() > 50 && cells.iter().flatten().all(String::is_empty), "{cells:?}");
    // The sources of the machine's parameters, at the end of the page, may name any figure.
    let results = page.split("id=\"machines\"").next().expect("the page begins with the results");
    for text in [&table, results] {
        assert!(text.contains("No paper measured this machine"), "{text}");
        for part in ["25.33", "20.38", "follows", "predicted", "fitted'", "differs"] {
            assert!(!text.contains(part), "{part} in {text}");
        }
    }
}

#[test]
fn an_unchanged_copy_under_another_name_has_the_published_figures() {
    let Outputs { table, json, page, cells } = run(&replaced("name = \"1-socket\"", "name = \"mine\""));
    let results = json["results"].as_array().expect("a list");
    for result in results {
        assert_eq!((&result["machine"], &result["built_in"]), (&"mine".into(), &"1-socket".into()));
        assert_eq!(result["published"]["elapsed"]["before"], 25.33);
    }
    assert_eq!(json["summary"][0]["label"], "follows");
    assert!(cells.iter().all(|[_, _, built_in]| built_in == "1-socket"));
    let [before, after] = ["25.33", "20.38"]
        .map(|figure| cells.iter().find(|cells| cells[0] == figure).unwrap_or_else(|| panic!("{figure}")));
    assert!(!before[1].is_empty() && !after[1].is_empty(), "labels: {before:?} and {after:?}");
    assert!(table.contains("mmap-read on mine") && table.contains("25.33 to 20.38"), "{table}");
    for text in [&table, &page] {
        assert!(text.contains("follows") && !text.contains("No paper measured"), "{text}");
    }
}

#[test]
fn another_number_of_cpus_is_another_machine() {
    let run = ["mmap-read", "--machine", "1-socket", "--scale", "0.003", "--repeats", "1", "--check=none"];
    let run = [&run[..], &["--mechanism", "batched", "--cpus"]].concat();
    for (cpus, built_in) in [("8", json!("1-socket")), ("4", Value::Null)] {
        let result = crate::common::results(&[&run[..], &[cpus]].concat()).remove(0);
        assert_eq!(result["built_in"], built_in, "{cpus}");
        assert_eq!(
            result["published"].as_object().is_some_and(serde_json::Map::is_empty),
            built_in.is_null()
        );
    }
}
