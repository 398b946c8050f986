//! Marks whatever bytes with whichever built-in profile.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cutter_fuzz::mark(input));
