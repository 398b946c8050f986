//! openpgp.
