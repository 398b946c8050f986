//! Reports.
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use crate::approval::Ask;
use crate::digest::Digest;
use crate::gate::GateReport;
use crate::machine::run::{GateId, Phase};
use crate::port::database::Survey;
use crate::settings::RunSettings;
use crate::sidecar::BackupRecord;
#[derive(Debug, Clone, thiserror::Error)]
#[error("x")]
pub struct ReportError;
#[derive(Debug, Clone, PartialEq)]
pub struct FinalSections { pub preserved: Vec<String>, pub next_steps: Vec<String> }
pub struct PhaseReport {
    pub phase: Phase, pub run_id: String, pub pass: bool, pub production_mutation: String,
    pub inputs: Vec<(String,String)>, pub work: Vec<String>, pub diff: Vec<(String,String,String)>,
    pub gate: GateReport, pub artifacts: Vec<(String, Digest, u64)>, pub verdict: Vec<(String,String)>,
    pub final_sections: Option<FinalSections>,
}
pub fn render_phase(_: &PhaseReport) -> Result<String, ReportError> { Ok(String::new()) }
pub struct CutFacts { pub unit_count: u64, pub region_bytes: u64, pub tree: String, pub duplicates: Vec<String>, pub warnings: Vec<String>, pub why: Vec<String> }
pub struct RequestReport { pub gate: GateId, pub ask: Ask, pub run_id: String, pub document_id: String, pub created_by: String, pub sidecar_path: String, pub pins: Vec<(String,String)>, pub cut: CutFacts, pub backup: Option<BackupRecord>, pub drift_pins: Survey, pub settings: RunSettings, pub acknowledged: Vec<String> }
pub fn render_request(_: &RequestReport) -> Result<String, ReportError> { Ok(String::new()) }
pub struct StopReport { pub run_id: String, pub document_id: String, pub n: u32, pub code: String, pub stage: String, pub at: jiff::Timestamp, pub nonce: String, pub detail: Vec<String>, pub observed: BTreeMap<String,String>, pub asks: Vec<Ask>, pub sidecar_json: String }
pub fn render_stop(_: &StopReport) -> Result<String, ReportError> { Ok(String::new()) }
