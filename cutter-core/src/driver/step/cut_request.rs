//! The request at SG_1: may this be cut?

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::string::String;

use super::Request;
use crate::driver::run::{Halt, Run};
use crate::machine::run::GateId;
use crate::record::approval::field;
use crate::record::effect::EffectName;
use crate::record::intent::{IdName, Intent};
use crate::report::naming::AuthorizationGate;

/// SG_cut_authz: the rows of the plan, before any of them is written.
pub(super) struct CutRequest;

impl Request for CutRequest {
    fn gate(&self) -> GateId {
        GateId::CutAuthz
    }

    fn named(&self) -> AuthorizationGate {
        AuthorizationGate::Cut
    }

    fn ids(&self) -> &'static [IdName] {
        &[
            IdName::Effect(EffectName::Sg1Review),
            IdName::Approval,
            IdName::ReviewDecision,
            IdName::ReviewHistory,
        ]
    }

    fn fields(&self, _: &Run<'_>, _: &Intent) -> Result<BTreeMap<&'static str, String>, Halt> {
        Ok([(field::CHANGE_SET_ID, "pending".to_owned())].into())
    }
}
