//! The upload of one blob: in parts, and nothing to be seen before it is published.

use std::time::Duration;

use ::object_store::{MultipartUpload, PutPayload};
use bytes::Bytes;
use tokio::sync::mpsc;

use super::error::{Fault, fault};
use super::place::{Place, late};
use crate::openpgp::EncryptFacts;
use cutter_core::port::PortErrorKind;

/// Every part but the last has this size: some stores want them equal, and none takes more
/// than [`MAX_PARTS`].
pub(super) const PART_BYTES: usize = 16 << 20;
/// What S3 takes: 160 GB of ciphertext.
const MAX_PARTS: usize = 10_000;

/// What comes from the encryption.
pub(super) enum Part {
    Bytes(Bytes),
    End(Box<EncryptFacts>),
    Failed(String),
}

/// A blob that was published.
pub(super) struct Uploaded {
    pub(super) facts: EncryptFacts,
}

/// A blob that is whole and not published yet.
pub(super) struct Ready {
    place: Place,
    path: String,
    held: Held,
    facts: EncryptFacts,
}

enum Held {
    /// One part: here.
    Here(Bytes),
    /// More: in the store, invisible.
    There(Box<dyn MultipartUpload>),
}

/// Takes parts until the end. An end without [`Part::End`] is a backup that was given up.
pub(super) async fn receive(
    place: &Place,
    path: &str,
    mut parts: mpsc::Receiver<Part>,
) -> Result<Ready, Fault> {
    let limit = place.limits().part;
    let mut first: Option<Bytes> = None;
    let mut upload: Option<Box<dyn MultipartUpload>> = None;
    let mut count = 0usize;
    let outcome = loop {
        match parts.recv().await {
            Some(Part::Bytes(part)) => {
                count += 1;
                if count == 1 {
                    first = Some(part);
                    continue;
                }
                match send(place, path, &mut upload, first.take(), part, count, limit).await {
                    Ok(()) => {}
                    Err(fault) => break Err(fault),
                }
            }
            Some(Part::End(facts)) => break Ok(*facts),
            Some(Part::Failed(message)) => break Err(Fault::unavailable(message)),
            None => break Err(Fault::unavailable("the backup was given up")),
        }
    };
    let held = |upload: Option<Box<dyn MultipartUpload>>| match upload {
        Some(upload) => Held::There(upload),
        None => Held::Here(first.unwrap_or_default()),
    };
    match outcome {
        Ok(facts) => Ok(Ready { place: place.clone(), path: path.to_owned(), held: held(upload), facts }),
        Err(fault) => {
            if let Some(upload) = upload {
                abort(upload, limit).await;
            }
            Err(fault)
        }
    }
}

async fn send(
    place: &Place,
    path: &str,
    upload: &mut Option<Box<dyn MultipartUpload>>,
    first: Option<Bytes>,
    part: Bytes,
    count: usize,
    limit: Duration,
) -> Result<(), Fault> {
    if count > MAX_PARTS {
        let gib = (MAX_PARTS * PART_BYTES) >> 30;
        let message = format!("expected a backup of at most {gib} GiB, observed more");
        return Err(Fault::NotDone { kind: PortErrorKind::Full, message });
    }
    let to = match upload {
        Some(upload) => upload,
        None => upload.insert(place.multipart(path).await?),
    };
    for bytes in first.into_iter().chain([part]) {
        let sent = tokio::time::timeout(limit, to.put_part(PutPayload::from_bytes(bytes))).await;
        // a part that may have arrived is not published: it is not done
        sent.map_err(|_| late(limit, false))?.map_err(|e| fault(&e, false))?;
    }
    Ok(())
}

impl Ready {
    pub(super) fn facts(&self) -> &EncryptFacts {
        &self.facts
    }

    /// Makes it visible, whole. Only for the owner of the claim.
    pub(super) async fn publish(self) -> Result<(), Fault> {
        let limit = self.place.limits().part;
        match self.held {
            Held::Here(bytes) => self.place.create_within(limit, &self.path, bytes).await,
            Held::There(mut upload) => {
                let done = match tokio::time::timeout(limit, upload.complete()).await {
                    Ok(done) => done.map(drop).map_err(|e| fault(&e, true)),
                    Err(_) => Err(late(limit, true)),
                };
                if matches!(done, Err(Fault::NotDone { .. })) {
                    abort(upload, limit).await;
                }
                done
            }
        }
    }

    /// Gives it up.
    pub(super) async fn abandon<T>(self, why: Fault) -> Result<T, Fault> {
        if let Held::There(upload) = self.held {
            abort(upload, self.place.limits().part).await;
        }
        Err(why)
    }
}

/// Best effort: what is left is invisible, and the bucket's rule removes it.
async fn abort(mut upload: Box<dyn MultipartUpload>, limit: Duration) {
    let _ = tokio::time::timeout(limit, upload.abort()).await;
}
