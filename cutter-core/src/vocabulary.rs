//! Vocabularies of unit_kind, section_type and publication_type.
