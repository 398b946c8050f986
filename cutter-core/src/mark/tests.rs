use super::*;
use std::vec::Vec;

mod traps;
