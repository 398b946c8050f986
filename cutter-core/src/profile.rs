//! Profiles: how one convention of documents is cut, as data.
