//! The steps of a run, a file each: eleven phases of one shape, and the requests at the two gates of another.
//! The driver orders them, and knows none of them.

mod backup;
mod closeout;
mod cut_leg_a;
mod cut_request;
mod cutplan;
mod grant_probe;
mod leg_b_record;
mod lifecycle_enact;
mod lifecycle_request;
mod mark;
mod source_pin;
mod structural_verify;
mod write_verify;

use alloc::borrow::ToOwned;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use async_trait::async_trait;

use super::run::{Halt, Run};
use crate::machine::run::{GateId, Phase};
use crate::record::check::GateReport;
use crate::record::effect::EffectName;
use crate::record::intent::{IdName, Intent};
use crate::record::sidecar::Artifact;
use crate::report::naming::AuthorizationGate;

/// A phase.
#[async_trait]
pub(super) trait Step: Sync {
    /// Its effects in the database, in order: what a lost attempt committed is adopted.
    fn effects(&self) -> &'static [EffectName] {
        &[]
    }

    /// The identifiers that its intent chooses before anything is written, besides its effects' own.
    fn ids(&self) -> &'static [IdName] {
        &[]
    }

    /// Whether its state and intent must be durable before it acts, since a lost attempt at it leaves something.
    /// A phase that only looks is done anew, with a new intent.
    fn leaves_something(&self) -> bool {
        !self.effects().is_empty()
    }

    /// What must hold before it begins, besides what is looked at before every phase.
    ///
    /// # Errors
    /// Why it may not begin.
    async fn may_begin(&self, _: &mut Run<'_>) -> Result<(), Halt> {
        Ok(())
    }

    /// Does it, exactly once whatever became of earlier attempts, and judges it by its gate.
    ///
    /// # Errors
    /// What keeps it from being done. What its gate refuses is no error here, but told by what it gives back.
    async fn act(&self, run: &mut Run<'_>) -> Result<Acted, Halt>;

    /// What follows once its report is filed.
    ///
    /// # Errors
    /// What keeps that from being done; it is done when the run is resumed.
    async fn filed(&self, _: &mut Run<'_>) -> Result<(), Halt> {
        Ok(())
    }
}

/// The step that a phase is.
pub(super) const fn of(phase: Phase) -> &'static dyn Step {
    match phase {
        Phase::SourcePin => &source_pin::SourcePin,
        Phase::Mark => &mark::Mark,
        Phase::Cutplan => &cutplan::Cutplan,
        Phase::Backup => &backup::Backup,
        Phase::GrantProbe => &grant_probe::GrantProbe,
        Phase::CutLegA => &cut_leg_a::CutLegA,
        Phase::StructuralVerify => &structural_verify::StructuralVerify,
        Phase::LegBRecord => &leg_b_record::LegBRecord,
        Phase::WriteVerify => &write_verify::WriteVerify,
        Phase::LifecycleEnact => &lifecycle_enact::LifecycleEnact,
        Phase::Closeout => &closeout::Closeout,
    }
}

/// All identifiers that a phase's intent chooses.
pub(super) fn ids_of(phase: Phase) -> Vec<IdName> {
    let step = of(phase);
    let effects = step.effects().iter().map(|effect| IdName::Effect(*effect));
    effects.chain(step.ids().iter().copied()).collect()
}

/// What acting on a phase gave: everything that its report and its record need.
pub(super) struct Acted {
    pub(super) gate: GateReport,
    /// The phase's idempotency key (spec 2 §4).
    pub(super) key: String,
    /// `NONE`, or what was written where.
    pub(super) mutation: String,
    pub(super) work: Vec<String>,
    /// Name, before, after.
    pub(super) diff: Vec<(String, String, String)>,
    pub(super) artifacts: Vec<Artifact>,
    pub(super) verdict: Vec<(String, String)>,
    /// Only the last phase looks ahead.
    pub(super) closing: Option<crate::report::FinalSections>,
}

impl Acted {
    /// What a phase gives that leads to this state and wrote nothing.
    pub(super) fn of(gate: GateReport, reached: &str) -> Self {
        Self {
            gate,
            key: String::new(),
            mutation: "NONE".to_owned(),
            work: Vec::new(),
            diff: Vec::new(),
            artifacts: Vec::new(),
            verdict: vec![
                ("outcome".to_owned(), "PASS".to_owned()),
                ("state".to_owned(), reached.to_owned()),
            ],
            closing: None,
        }
    }
}

impl Run<'_> {
    /// Report rows for pins that this phase set.
    pub(super) fn pinned(&self, names: &[&str]) -> Vec<(String, String, String)> {
        let value = |n: &str| self.sidecar.context_pins.get(n).cloned().unwrap_or_else(|| "-".to_owned());
        names.iter().map(|n| ((*n).to_owned(), "-".to_owned(), value(n))).collect()
    }

    /// The `production_mutation` line: a dry run writes nothing.
    pub(super) fn scope_of(&self, tables: &str) -> String {
        if self.live() { tables.to_owned() } else { "NONE".to_owned() }
    }
}

/// The request of a sovereign gate.
#[async_trait]
pub(super) trait Request: Sync {
    /// The gate that it asks at.
    fn gate(&self) -> GateId;

    /// The gate as file names have it.
    fn named(&self) -> AuthorizationGate;

    /// The identifiers that its intent chooses.
    fn ids(&self) -> &'static [IdName];

    /// What its intent chose and the run goes on with.
    ///
    /// # Errors
    /// An intent that chose less.
    fn chosen(&self, _: &mut Run<'_>, _: &Intent) -> Result<(), Halt> {
        Ok(())
    }

    /// The fields that only this gate asks for, by name.
    ///
    /// # Errors
    /// A record that lacks one.
    fn fields(&self, run: &Run<'_>, intent: &Intent) -> Result<BTreeMap<&'static str, String>, Halt>;

    /// What is stored before the document is filed.
    ///
    /// # Errors
    /// As those of an effect.
    async fn stored(&self, _: &mut Run<'_>) -> Result<(), Halt> {
        Ok(())
    }
}

/// The request of a gate.
pub(super) fn request_at(gate: GateId) -> &'static dyn Request {
    match gate {
        GateId::CutAuthz => &cut_request::CutRequest,
        _ => &lifecycle_request::LifecycleRequest,
    }
}
