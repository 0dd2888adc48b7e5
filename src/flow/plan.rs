//! From the flow file to a plan: variants chosen, references checked, nodes in a stable order.
//!
//! Contract: PromptFlow's own rules. The next node is the first in file order whose dependencies are
//! done. Duplicate names, references without a target and cycles are refused. Only an aggregation node
//! may read an aggregation node; outputs that read one are dropped. Inputs of an aggregation node are
//! lists over all lines, so it runs after the other nodes.
//!
//! See docs/adr/0017-one-structured-output.md.

use std::collections::{BTreeMap, BTreeSet};

use super::dag::{BadFlow, Binding, FlowFile, Node, OutputDef};

/// What will run, in which order.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    /// Nodes that run for each line, in order.
    pub nodes: Vec<Node>,
    /// Nodes that run once over all lines, in order.
    pub aggregation: Vec<Node>,
    /// Outputs that have a value.
    pub outputs: Vec<OutputDef>,
    /// Warnings about the flow.
    pub warnings: Vec<String>,
}

/// Plans a flow for a variant. A node with variants uses the one of that name, else its default.
pub(super) fn plan(flow: &FlowFile, variant: Option<&str>) -> Result<Plan, BadFlow> {
    let nodes: Vec<Node> = flow.nodes.iter().map(|node| choose(flow, node, variant)).collect();
    check_names(&nodes)?;
    check_inputs(flow, &nodes)?;
    let dependencies = dependencies(&nodes)?;
    let mut warnings = Vec::new();
    let outputs = outputs(flow, &nodes, &mut warnings)?;
    let order = order(&nodes, &dependencies)?;
    let (aggregation, nodes) = order.into_iter().partition(|node: &Node| node.aggregation);
    Ok(Plan { nodes, aggregation, outputs, warnings })
}

/// True when some node of the flow has a variant of this name; `${node.variant}` means that node alone.
pub(crate) fn has_variant(flow: &FlowFile, variant: &str) -> bool {
    flow.nodes.iter().any(|node| {
        let variants = flow.variants.get(&node.name).filter(|_| node.use_variants);
        let wanted = wanted(node, variant);
        wanted.is_some_and(|id| variants.is_some_and(|it| it.bodies.contains_key(id)))
    })
}

/// The name of the variant that is wanted of a node.
fn wanted<'v>(node: &Node, variant: &'v str) -> Option<&'v str> {
    match variant.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
        None => Some(variant),
        Some(named) => named.split_once('.').filter(|(of, _)| *of == node.name).map(|(_, id)| id),
    }
}

fn choose(flow: &FlowFile, node: &Node, variant: Option<&str>) -> Node {
    let Some(variants) = flow.variants.get(&node.name).filter(|_| node.use_variants) else {
        return node.clone();
    };
    let wanted = variant.and_then(|variant| variants.bodies.get(wanted(node, variant)?));
    let body = wanted.or_else(|| variants.bodies.get(&variants.default_id));
    body.cloned().unwrap_or_else(|| node.clone())
}

fn check_names(nodes: &[Node]) -> Result<(), BadFlow> {
    let mut seen = BTreeSet::new();
    for node in nodes {
        if !seen.insert(&node.name) {
            return Err(BadFlow::new(format!("nodes.{}", node.name), "the name is used twice"));
        }
    }
    Ok(())
}

fn check_inputs(flow: &FlowFile, nodes: &[Node]) -> Result<(), BadFlow> {
    for node in nodes {
        let activate = node.activate.iter().map(|activate| ("activate", &activate.when));
        let inputs = node.inputs.iter().map(|(name, binding)| (name.as_str(), binding));
        for (name, binding) in inputs.chain(activate) {
            if let Binding::Input(input) = binding
                && flow.input(input).is_none()
            {
                let place = format!("nodes.{}.{name}", node.name);
                return Err(BadFlow::new(place, format!("there is no flow input {input}")));
            }
            if let Binding::Node { section, .. } = binding
                && section != "output"
            {
                let place = format!("nodes.{}.{name}", node.name);
                return Err(BadFlow::new(place, format!("a node has no section {section}")));
            }
        }
    }
    Ok(())
}

type Dependencies<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

fn dependencies(nodes: &[Node]) -> Result<Dependencies<'_>, BadFlow> {
    let aggregation: BTreeMap<&str, bool> =
        nodes.iter().map(|node| (node.name.as_str(), node.aggregation)).collect();
    let mut all = BTreeMap::new();
    for node in nodes {
        let mut needs = BTreeSet::new();
        let when = node.activate.iter().map(|activate| &activate.when);
        for other in node.inputs.iter().map(|(_, b)| b).chain(when).filter_map(Binding::node) {
            let place = || format!("nodes.{}", node.name);
            let Some(aggregates) = aggregation.get(other) else {
                return Err(BadFlow::new(place(), format!("there is no node {other}")));
            };
            if *aggregates && !node.aggregation {
                let what = format!("reads {other}, which runs after all lines");
                return Err(BadFlow::new(place(), what));
            }
            needs.insert(other);
        }
        if let Some(other) = node.activate.as_ref().and_then(|activate| activate.when.node())
            && node.aggregation
            && !aggregation[other]
        {
            let place = format!("nodes.{}.activate", node.name);
            return Err(BadFlow::new(place, format!("cannot look at {other} of a single line")));
        }
        all.insert(node.name.as_str(), needs);
    }
    Ok(all)
}

fn order(nodes: &[Node], dependencies: &Dependencies<'_>) -> Result<Vec<Node>, BadFlow> {
    let mut picked: BTreeSet<&str> = BTreeSet::new();
    let mut order = Vec::with_capacity(nodes.len());
    while order.len() < nodes.len() {
        let next = nodes.iter().find(|node| {
            !picked.contains(node.name.as_str())
                && dependencies[node.name.as_str()].iter().all(|other| picked.contains(other))
        });
        let Some(next) = next else {
            let stuck: Vec<&str> =
                dependencies.keys().copied().filter(|name| !picked.contains(name)).collect();
            return Err(BadFlow::new("nodes", format!("a cycle among {}", stuck.join(", "))));
        };
        picked.insert(&next.name);
        order.push(next.clone());
    }
    Ok(order)
}

fn outputs(
    flow: &FlowFile,
    nodes: &[Node],
    warnings: &mut Vec<String>,
) -> Result<Vec<OutputDef>, BadFlow> {
    let mut kept = Vec::new();
    for output in &flow.outputs {
        let place = || format!("outputs.{}", output.name);
        match &output.reference {
            Binding::Literal(_) => {}
            Binding::Input(name) if flow.input(name).is_some() => {}
            Binding::Input(name) => {
                return Err(BadFlow::new(place(), format!("there is no flow input {name}")));
            }
            Binding::Node { node, section, .. } => {
                let Some(found) = nodes.iter().find(|other| other.name == *node) else {
                    return Err(BadFlow::new(place(), format!("there is no node {node}")));
                };
                if section != "output" {
                    return Err(BadFlow::new(place(), format!("a node has no section {section}")));
                }
                if found.aggregation {
                    warnings.push(format!(
                        "output {} reads {node}, which runs after all lines, and is dropped",
                        output.name
                    ));
                    continue;
                }
            }
        }
        kept.push(output.clone());
    }
    Ok(kept)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::yaml;

    fn flow(text: &str) -> FlowFile {
        FlowFile::from_value(&yaml::parse(text).unwrap()).unwrap()
    }

    fn names(nodes: &[Node]) -> Vec<&str> {
        nodes.iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn the_first_ready_node_in_file_order_comes_next() {
        let flow = flow(
            "nodes:\n- {name: c, type: prompt, inputs: {x: '${b.output}'}}\n- {name: a, type: prompt}\n- {name: b, type: prompt, activate: {when: '${a}', is: 1}}\n- {name: d, type: prompt}\n",
        );
        assert_eq!(names(&plan(&flow, None).unwrap().nodes), ["a", "b", "c", "d"]);
    }

    #[test]
    fn broken_graphs_are_refused_by_name() {
        for (text, what) in [
            ("nodes:\n- {name: a}\n- {name: a}\n", "used twice"),
            (
                "nodes:\n- {name: a, inputs: {x: '${b}'}}\n- {name: b, inputs: {x: '${a}'}}\n",
                "a cycle among a, b",
            ),
            ("nodes:\n- {name: a, inputs: {x: '${z}'}}\n", "no node z"),
            ("nodes:\n- {name: a, inputs: {x: '${inputs.q}'}}\n", "no flow input q"),
            ("nodes:\n- {name: a, inputs: {x: '${b.log}'}}\n- {name: b}\n", "no section log"),
            (
                "nodes:\n- {name: a, aggregation: true}\n- {name: b, inputs: {x: '${a}'}}\n",
                "after all lines",
            ),
            ("outputs: {o: {type: string, reference: '${z.output}'}}\n", "no node z"),
        ] {
            let error = plan(&flow(text), None).unwrap_err();
            assert!(error.to_string().contains(what), "{error}");
        }
    }

    #[test]
    fn aggregation_runs_apart_and_its_outputs_are_dropped() {
        let flow = flow(
            "outputs:\n  o: {type: string, reference: '${sum.output}'}\n  l: {type: string, reference: '${line.output}'}\nnodes:\n- {name: sum, aggregation: true, inputs: {x: '${line.output}'}}\n- {name: line}\n",
        );
        let plan = plan(&flow, None).unwrap();
        assert_eq!((names(&plan.nodes), names(&plan.aggregation)), (vec!["line"], vec!["sum"]));
        assert_eq!(plan.outputs.len(), 1);
        assert_eq!(plan.warnings.len(), 1);
    }

    #[test]
    fn a_variant_is_chosen_by_name_or_by_default() {
        let flow = flow(
            "nodes:\n- {name: n, use_variants: true}\n- {name: m, type: llm}\nnode_variants:\n  n:\n    default_variant_id: one\n    variants:\n      one: {node: {type: llm, source: {path: 1.jinja2}}}\n      fast: {node: {type: llm, source: {path: 2.jinja2}}}\n  m:\n    default_variant_id: x\n    variants: {x: {node: {type: prompt}}}\n",
        );
        let path = |variant| plan(&flow, variant).unwrap().nodes[0].path.clone().unwrap();
        assert_eq!(path(None), "1.jinja2");
        assert_eq!(path(Some("fast")), "2.jinja2");
        assert_eq!(path(Some("other")), "1.jinja2");
        assert_eq!(plan(&flow, None).unwrap().nodes[1].kind, "llm", "not switched on");
        assert!(has_variant(&flow, "fast") && !has_variant(&flow, "x"));
    }
}
