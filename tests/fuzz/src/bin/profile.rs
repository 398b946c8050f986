//! Reads whatever bytes as a profile, and cuts with the ones that read.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cutter_fuzz::profile(input));
