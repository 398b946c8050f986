//! Folder and file names in the knowledge base.
