//! A plan as a person reads it: by stage, then by machine, each step with its reason.

use std::fmt::Write as _;
use std::time::Duration;

use anstyle::Style;
use mullion_catalog::{Catalog, Model};
use mullion_engine::stand_in_mark;
use mullion_plan::{MachineKinds, Plan, Reboot, STAGES, Step, Took};
use mullion_spec::render::Colour;
use mullion_wire::duration;
use mullion_wire::text::visible;

use super::findings::plural;
use crate::console::{FAINT, STRONG};

/// The widest that a step's title makes its column.
const WIDEST: usize = 60;

/// How much is told of each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// Title and reason.
    Usual,
    /// How long it took before, too.
    Durations,
}

/// The plan as text.
pub fn text(plan: &Plan, model: &Model, took: &Took, detail: Detail, colour: Colour) -> String {
    let cluster = model.cluster();
    let kinds = MachineKinds::of(cluster);
    let version = model.kubernetes().version;
    if plan.is_empty() {
        return format!(
            "nothing to do: cluster `{}` is as the file says\n",
            cluster.name
        );
    }
    let paint = |style: Style, text: &str| match colour {
        Colour::Styled => format!("{style}{text}{style:#}"),
        Colour::Plain => text.to_owned(),
    };
    let machines = plan
        .steps()
        .iter()
        .filter_map(|step| step.machine.as_ref())
        .collect::<std::collections::BTreeSet<_>>()
        .len();
    let mut out = String::new();
    let _ = writeln!(
        out,
        "cluster `{}`, Kubernetes {version}: {} on {}\n",
        cluster.name,
        plural(plan.steps().len(), "step"),
        plural(machines, "machine")
    );
    for row in &STAGES {
        let steps: Vec<&Step> = plan
            .steps()
            .iter()
            .filter(|step| step.stage == row.stage)
            .collect();
        if steps.is_empty() {
            continue;
        }
        let heading = paint(STRONG, row.title);
        let _ = writeln!(
            out,
            "{heading}  {}",
            paint(FAINT, &format!("[{}]", row.word))
        );
        let width =
            |text: &dyn Fn(&Step) -> usize| steps.iter().map(|step| text(step)).max().unwrap_or(0);
        let names = width(&|step| step.machine.as_ref().map_or(0, |name| name.as_str().len()));
        let titles = width(&|step| step.title().chars().count()).min(WIDEST);
        for step in steps {
            let name = step.machine.as_ref().map_or("", |name| name.as_str());
            let gap = if names == 0 { "" } else { "  " };
            let mut reason = visible(&step.reason).into_owned();
            if step.reboot() == Reboot::MayFollow {
                reason.push_str("; a restart may follow");
            }
            if detail == Detail::Durations
                && let Some(before) = took.about(step, &kinds)
            {
                let _ = write!(reason, "; took {} before", duration::shown(before));
            }
            let _ = writeln!(
                out,
                "  {name:<names$}{gap}{:<titles$}  {}",
                step.title(),
                paint(FAINT, &reason)
            );
            for command in step.action.commands_beside_title() {
                let _ = writeln!(out, "  {:names$}{gap}  $ {}", "", command.shown());
            }
        }
        out.push('\n');
    }
    if let Some(mark) = stand_in_mark(&Catalog::builtin().stand_ins(cluster)) {
        let _ = writeln!(out, "{mark}");
    }
    let estimate = took.estimate(plan, &kinds);
    if estimate.longest > Duration::ZERO {
        let _ = write!(
            out,
            "by what earlier runs took: about {}",
            duration::shown(estimate.longest)
        );
        let _ = match estimate.unknown {
            0 => writeln!(out),
            unknown => writeln!(out, ", and {} never timed", plural(unknown, "step")),
        };
    }
    out.push_str("nothing has been changed\n");
    out
}
