//! What `doctor` says of the policy: who may approve, and whether the duties sign with their keys.

use cutter_core::record::signature::Duty;

use super::{Findings, Status};
use crate::config::Config;
use crate::wire;

/// Looks at the policy of a database that answers and whose schema is current.
pub(super) fn look(config: &Config, findings: &mut Findings) {
    let chain = match wire::policy::chain(config) {
        Err(failure) => return findings.failure("policy", &failure),
        Ok(chain) if chain.is_empty() => {
            let detail = "this database holds none: nobody may approve anything";
            return findings.add(Status::Bad, "policy", detail, "cutter approver import");
        }
        Ok(chain) => chain,
    };
    for notice in chain.notices() {
        findings.add(Status::Warn, "policy", notice, "cutter policy show");
    }
    let now = chain.now();
    match now.approvers().as_slice() {
        [] => findings.add(
            Status::Bad,
            "policy",
            "nobody may approve",
            "cutter approver add NAME --public-key FILE",
        ),
        people => findings
            .ok("policy", format!("{} events; who may approve: {}", chain.links().len(), people.join(", "))),
    }
    for (duty, seed) in [(Duty::Executor, &config.keys.executor), (Duty::Verifier, &config.keys.verifier)] {
        let name = format!("{} key", duty.as_str());
        match (now.duty_key(duty), wire::duty_public_key(seed).ok()) {
            (None, _) => findings.add(
                Status::Warn,
                name,
                "not registered: any key signs",
                format!("cutter duty-key register {}", duty.as_str()),
            ),
            (Some(registered), Some(here)) if registered != here => findings.add(
                Status::Bad,
                name,
                format!("expected {registered}, which is registered, observed {here}"),
                "cutter duty-key list",
            ),
            _ => {}
        }
    }
}
