//! Walls that can be taken down, one at a time, to see that the stories notice.

use std::sync::Arc;

use cutter_core::driver::Ports;
use cutter_core::port::PortResult;
use cutter_core::port::environment::Clock;
use cutter_core::port::signer::SignatureVerifier;
use cutter_core::record::signature::SignatureFacts;
use cutter_core::testing::memory::World;
use cutter_tests::SOVEREIGN;
use cutter_tests::attack::Role;
use jiff::{SignedDuration, Timestamp};

use crate::act::{Act, Key};
use crate::people::Mind;
use crate::tell::{Move, Story, When};

/// A wall of which one stone decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wall {
    /// Signatures are checked.
    Signatures,
    /// The database refuses by itself what a driver would refuse.
    Database,
    /// Refusals are listened for.
    Listening,
    /// Whoever checks brings the approvers' keys along.
    KeysBrought,
    /// Stored rows are compared with what was signed.
    RowsSigned,
}

impl Wall {
    pub const ALL: [Self; 5] =
        [Self::Signatures, Self::Database, Self::Listening, Self::KeysBrought, Self::RowsSigned];

    /// Whom it holds off.
    pub fn is_against(self, role: Role) -> bool {
        match self {
            Self::Signatures => matches!(role, Role::Operator | Role::KbWriter),
            Self::Database => matches!(role, Role::Operator | Role::Executor),
            Self::Listening => true,
            Self::KeysBrought | Self::RowsSigned => role == Role::Superuser,
        }
    }

    /// The story, told so that it comes to this wall.
    pub fn pressed(self, story: Story) -> Story {
        if self != Self::KeysBrought {
            return story;
        }
        let act = |turn, act| Move { turn, when: When::Before, act };
        let mut moves = vec![act(0, Act::Found)];
        moves.extend((1..5).map(|turn| act(turn, Act::Forge(Key::Stranger, 0))));
        moves.extend(story.moves.iter().copied());
        Story { minds: vec![Mind::Approves, Mind::Silent], ..story.with(moves) }
    }

    /// What is said when it is down.
    pub const fn breaks(self) -> &'static str {
        match self {
            Self::Signatures | Self::Database => "without a valid word",
            Self::Listening => "although it was refused",
            Self::KeysBrought | Self::RowsSigned => "and no check fails",
        }
    }
}

/// Says of every document whose signature is not good that the sovereign signed it.
struct Gullible {
    inner: Arc<dyn SignatureVerifier>,
    sovereign: String,
}

impl Gullible {
    fn believe(&self, facts: SignatureFacts, document: &[u8], now: Timestamp) -> SignatureFacts {
        let text = match facts {
            SignatureFacts::Good { .. } => return facts,
            SignatureFacts::Unsigned { text } => text,
            SignatureFacts::Bad { .. } => String::from_utf8_lossy(document).into_owned(),
        };
        SignatureFacts::Good { fingerprint: self.sovereign.clone(), signed_at: now, text }
    }
}

#[async_trait::async_trait]
impl SignatureVerifier for Gullible {
    async fn observe(&self, document: &[u8], now: Timestamp) -> PortResult<SignatureFacts> {
        let facts = self.inner.observe(document, now).await?;
        Ok(self.believe(facts, document, now))
    }

    async fn observe_with(
        &self,
        document: &[u8],
        keys: &[&str],
        now: Timestamp,
    ) -> PortResult<SignatureFacts> {
        let facts = self.inner.observe_with(document, keys, now).await?;
        Ok(self.believe(facts, document, now))
    }

    async fn signers(&self, block: &[u8], keys: &[&str]) -> PortResult<Vec<SignatureFacts>> {
        self.inner.signers(block, keys).await
    }
}

/// The operator's own clock, which goes wrong.
pub struct Skewed {
    pub inner: Arc<dyn Clock>,
    pub minutes: i64,
}

#[async_trait::async_trait]
impl Clock for Skewed {
    fn now(&self) -> Timestamp {
        let now = self.inner.now();
        now.checked_add(SignedDuration::from_mins(self.minutes)).unwrap_or(now)
    }

    async fn sleep(&self, millis: u64) {
        self.inner.sleep(millis).await;
    }
}

/// Takes a wall down in the ports of a driver.
pub fn without(wall: Option<Wall>, ports: &mut Ports, world: &World) {
    if wall == Some(Wall::Signatures) {
        let sovereign = world.person(SOVEREIGN);
        ports.signatures = Arc::new(Gullible { inner: ports.signatures.clone(), sovereign });
    }
}
