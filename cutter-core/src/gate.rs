//! Gates: facts in, a named verdict out.
