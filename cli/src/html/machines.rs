//! The machines of the results: each with its hash, its fitted and tuned parameters, and all others folded.

use ceasefire_machine::config::{Machine, Parameter, Range};
use maud::{html, Markup};

use super::contents::Anchor;
use crate::number::compact;
use crate::results::of_own_machine;

/// The description of one machine.
pub(super) fn described(machine: &Machine, anchor: &Anchor) -> Markup {
    let of = |is: fn(&Parameter) -> bool| machine.sources.iter().filter(move |one| is(one));
    let (fitted, tuned) = (of(Parameter::is_fitted).count(), of(Parameter::is_tuned).count());
    let topology = &machine.topology;
    let gib = topology.bytes() as f64 / f64::from(1 << 30);
    html! {
        article {
            h3 id=(anchor.id) { (anchor.link(&html! { (machine.name) })) }
            p { (machine.description) ". " (topology.cpu_count()) " CPUs, " (topology.nodes().len())
                @if topology.nodes().len() == 1 { " node, " } @else { " nodes, " } (compact(gib)) " GiB at scale 1." }
            p.note {
                @match machine.built_in() {
                    Some(name) => { "It is the machine " (name) " that comes with the program." },
                    None => { (of_own_machine(machine).unwrap_or_default()) },
                }
                " Hash of its content: " code { (machine.hash()) } "."
            }
            p.note {
                "Of " (machine.sources.len()) " parameters " (fitted) " were fitted to a published figure, and " (tuned)
                " were chosen with published figures in sight."
            }
            @if fitted + tuned > 0 {
                div.scroll {
                    table {
                        thead { tr { th { "parameter" } th { "value" } th.text { "published figures" } } }
                        tbody {
                            @for parameter in of(Parameter::is_fitted).chain(of(Parameter::is_tuned)) {
                                tr {
                                    th scope="row" { (parameter.key.rsplit('.').next().unwrap_or(&parameter.key)) }
                                    td.number { (value(parameter)) }
                                    td.text { (marks(parameter)) }
                                }
                            }
                        }
                    }
                }
            }
            details {
                summary { "all parameters, with units, sources and ranges" }
                div.scroll {
                    table.parameters {
                        thead { tr { th { "parameter" } th { "value" } th.text { "source" } th.text { "range" } } }
                        tbody {
                            @for parameter in &machine.sources {
                                tr {
                                    th scope="row" { (parameter.key) }
                                    td.number { (value(parameter)) }
                                    td.text {
                                        (parameter.source)
                                        @if parameter.is_fitted() || parameter.is_tuned() { "; " b { (marks(parameter)) } }
                                    }
                                    td.text {
                                        @if let Some(Range { from, to, because }) = &parameter.range {
                                            (from) " to " (to) ": " (because)
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The value in full, with its unit.
fn value(parameter: &Parameter) -> String {
    format!("{} {}", parameter.value, parameter.unit).trim_end().to_owned()
}

/// The published figures that determined the parameter.
fn marks(parameter: &Parameter) -> String {
    match &parameter.marks.fitted {
        Some(mark) => format!("fitted to {}", mark.name()),
        None => format!("tuned in sight of {}", parameter.marks.seen_names()),
    }
}

#[cfg(test)]
mod tests {
    use ceasefire_machine::config::builtin;

    use super::super::contents::Anchors;
    use super::*;

    fn text(machine: &Machine) -> String {
        described(machine, &Anchors::default().of("machine")).into_string()
    }

    #[test]
    fn every_parameter_has_its_unit_its_source_and_its_range() {
        let machine = builtin("1-socket").expect("a listed name").expect("a valid file");
        let text = text(&machine);
        assert_eq!(
            text.matches("<td class=\"text\">").count(),
            2 * machine.sources.len() + {
                machine.sources.iter().filter(|one| one.is_fitted() || one.is_tuned()).count()
            }
        );
        for parameter in &machine.sources {
            let source = html! { (parameter.source) }.into_string();
            let row = format!("{}</th><td class=\"number\">{}</td>", parameter.key, value(parameter));
            assert!(text.contains(&row) && text.contains(&source), "{row} {source}");
        }
        assert!(text.contains("<td class=\"text\">20 to 40: the source's span</td>"), "{text}");
        assert!(
            text.contains(&machine.hash()) && text.contains("the machine 1-socket that comes with"),
            "{text}"
        );
    }

    #[test]
    fn a_machine_that_is_not_built_in_says_that_no_paper_measured_it() {
        let machine = builtin("1-socket").expect("a listed name").expect("a valid file");
        let text = text(&machine.with_cpus(2).expect("allowed"));
        assert!(
            text.contains("No paper measured this machine") && !text.contains("comes with the program"),
            "{text}"
        );
    }
}
