//! What comes next is chosen, and recorded before anything is written.

use alloc::format;
use alloc::string::ToString;

use crate::base::id::RunId;
use crate::port::environment::{Clock, IdSource};
use crate::record::intent::{IdName, Intent, date_of};

impl Intent {
    /// Chooses everything for `name` now.
    pub fn choose(
        run_id: &RunId,
        name: &str,
        occurrence: u32,
        id_names: &[IdName],
        with_nonce: bool,
        clock: &dyn Clock,
        ids: &dyn IdSource,
    ) -> Self {
        let at = clock.now();
        let purpose = |what: &str| format!("{run_id}/{name}/{occurrence}/{what}");
        Self {
            name: name.to_string(),
            occurrence,
            at,
            date: date_of(at),
            ids: id_names
                .iter()
                .map(|n| (n.as_str().to_string(), ids.uuid_v7(at, &purpose(n.as_str()))))
                .collect(),
            nonce: with_nonce.then(|| ids.nonce(&purpose("nonce"))),
        }
    }
}
