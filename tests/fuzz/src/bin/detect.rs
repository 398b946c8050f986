//! Detects the profile of whatever bytes and cuts them with it.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| cutter_fuzz::detect(input));
